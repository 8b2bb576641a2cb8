type Child = Node | string | null | undefined | false
type Props = Record<string, string | boolean | number | undefined | ((event: Event) => void)>

/** Builds an element. Text becomes text nodes, never markup; `on...` properties become listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue
    if (typeof value === 'function') element.addEventListener(name.slice(2), value)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((c) => c !== null && c !== undefined && c !== false))
  return element
}

/** A button with a visible label, or a short one with the full meaning for screen readers. */
export function button(
  label: string,
  onclick: (event: Event) => void,
  props: Props & { name?: string } = {},
): HTMLButtonElement {
  const { name, ...rest } = props
  return h('button', { type: 'button', onclick, ...(name ? { 'aria-label': name, title: name } : {}), ...rest }, label)
}

/** The element with this id, which the page's markup has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id)
  if (!element) throw new Error(`the page has no element #${id}`)
  return element as T
}

/** Copies text and says so on the button for a moment. */
export function copyButton(text: () => string, label = 'Copy'): HTMLButtonElement {
  const element: HTMLButtonElement = button(label, () => {
    navigator.clipboard.writeText(text()).then(
      () => flash(element, 'Copied'),
      () => flash(element, 'Copying was refused'),
    )
  })
  return element
}

function flash(element: HTMLElement, text: string): void {
  const before = element.textContent
  if (before === text) return
  element.textContent = text
  setTimeout(() => (element.textContent = before), 1500)
}

/** Hands the user a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  h('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
