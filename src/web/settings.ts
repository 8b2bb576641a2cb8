import { byId } from './dom.js'
import { saveSettings, type Settings } from './store.js'

/** The user's tools: a JSON list in the OpenAI form, one tool, or bare functions. Throws with words. */
export function toolList(text: string): unknown[] {
  if (!text.trim()) return []
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new Error(`Settings: the tools are not JSON (${(error as Error).message}).`, { cause: error })
  }
  return (Array.isArray(value) ? value : [value]).map((tool: unknown, i) => {
    const t = tool as { type?: unknown; name?: unknown; function?: { name?: unknown } } | null
    if (typeof t?.function?.name === 'string') return { type: 'function', ...(t as object) }
    if (typeof t?.name === 'string') return { type: 'function', function: t }
    throw new Error(`Settings: tool ${i + 1} has no function name.`)
  })
}

/** Fills the dialog from the settings and keeps both in step. */
export function bindSettings(settings: Settings, changed: () => void): void {
  const dialog = byId<HTMLDialogElement>('settings')
  const fields = dialog.querySelectorAll<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>('[data-setting]')
  for (const field of fields) {
    const name = field.dataset['setting'] as Exclude<keyof Settings, 'thinking'>
    field.value = settings[name]
    field.addEventListener('input', () => {
      Object.assign(settings, { [name]: field.value })
      saveSettings(settings)
      if (name === 'tools') reportTools(field.value)
      changed()
    })
  }
  reportTools(settings.tools)
  const thinking = byId<HTMLInputElement>('thinking')
  thinking.checked = settings.thinking
  thinking.addEventListener('change', () => {
    settings.thinking = thinking.checked
    saveSettings(settings)
  })
  byId('open-settings').addEventListener('click', () => dialog.showModal())
}

function reportTools(text: string): void {
  let problem = ''
  try {
    toolList(text)
  } catch (error) {
    problem = (error as Error).message
  }
  byId('tools-problem').textContent = problem
}
