import { clearInterval, setInterval } from 'node:timers'

// `npm start` in a clone: serves the small model that comes along, unless the environment or a flag names another. Flags go after `--`.
process.env.MAPLE_MODEL_PATH ||= 'sprout'
process.argv.splice(2, 0, 'serve')

// npm hands SIGTERM to a shell that ends without handing it on: a server whose shell is gone was meant.
if (process.env.npm_lifecycle_event === 'start') {
  const shell = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === shell) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, 250)
  watch.unref()
}

await import('../../dist/cli/main.js')
