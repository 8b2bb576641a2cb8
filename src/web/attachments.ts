import { button, byId, h } from './dom.js'

const MAX_BYTES = 512 * 1024

/** Text files dropped on the page or chosen; sent ahead of the message. */
export class Attachments {
  private files: { name: string; text: string }[] = []

  /** Listens to the page. `problem` tells the user why a file was not taken. */
  bind(problem: (text: string) => void): void {
    const composer = byId('composer')
    const input = byId<HTMLInputElement>('attach-file')
    byId('attach').addEventListener('click', () => input.click())
    input.addEventListener('change', () => {
      void this.add([...(input.files ?? [])], problem)
      input.value = ''
    })
    document.addEventListener('dragover', (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      composer.classList.add('drop')
    })
    document.addEventListener('dragleave', (event) => {
      if (!event.relatedTarget) composer.classList.remove('drop')
    })
    document.addEventListener('drop', (event) => {
      composer.classList.remove('drop')
      if (!event.dataTransfer?.files.length) return
      event.preventDefault()
      void this.add([...event.dataTransfer.files], problem)
    })
  }

  /** The files as text to put before a message. */
  prefix(): string {
    return this.files.map(({ name, text }) => `File ${name}:\n${fence(text)}\n\n`).join('')
  }

  clear(): void {
    this.files = []
    this.render()
  }

  private async add(files: File[], problem: (text: string) => void): Promise<void> {
    for (const file of files) {
      if (file.size > MAX_BYTES)
        problem(`${file.name} has ${Math.ceil(file.size / 1024)} kB; at most ${MAX_BYTES / 1024} kB are taken.`)
      else {
        try {
          const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer())
          if (text.includes('\0')) throw new Error('binary')
          this.files.push({ name: file.name, text })
        } catch {
          problem(`${file.name} is not a text file.`)
        }
      }
    }
    this.render()
    byId('draft').focus()
  }

  private render(): void {
    byId('attachments').replaceChildren(
      ...this.files.map((file) =>
        h(
          'li',
          {},
          file.name,
          button(
            '✕',
            () => {
              this.files = this.files.filter((other) => other !== file)
              this.render()
            },
            { name: `Remove ${file.name}` },
          ),
        ),
      ),
    )
  }
}

/** A code fence longer than any run of backticks in the text. */
function fence(text: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), (m) => m[0].length))
  const marks = '`'.repeat(longest + 1)
  return `${marks}\n${text.replace(/\n$/, '')}\n${marks}`
}
