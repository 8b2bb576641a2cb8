/** A number of bytes in decimal units, as disks and downloads are sold: `5.31 GB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = Math.max(0, bytes)
  let unit = 0
  // 999.95 would print as 1000.0.
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2
  return `${value.toFixed(digits)} ${units[unit]}`
}

/** A duration as people say it: `0.4 s`, `12 s`, `3:05 min`, `2:15 h`. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return '?'
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  const pad = (value: number): string => String(value).padStart(2, '0')
  if (whole < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)} min`
  return `${Math.floor(whole / 3600)}:${pad(Math.floor((whole % 3600) / 60))} h`
}

/** A large count in words: `20.2 billion`. */
export function formatCount(count: number): string {
  for (const [size, name] of [
    [1e9, 'billion'],
    [1e6, 'million'],
  ] as const) {
    if (count >= size) return `${(count / size).toFixed(count / size >= 100 ? 0 : 1)} ${name}`
  }
  return String(count)
}
