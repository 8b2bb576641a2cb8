import { Marked } from './vendor/marked.js'
import DOMPurify from './vendor/purify.js'
import { copyButton, h } from './dom.js'

/** HTML inside markdown is shown as it was written: an answer about HTML should be readable, and none of it can act. */
const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: { html: ({ text }) => text.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`) },
})

/** What markdown can mean, and nothing that loads, runs, styles or submits. */
const ALLOWED_TAGS = [
  ...[
    'a',
    'b',
    'blockquote',
    'br',
    'code',
    'del',
    'em',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'hr',
    'i',
    'li',
    'ol',
    'p',
  ],
  ...['pre', 's', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'],
]

/**
 * Markdown from a model or a person as safe elements: parsed, sanitised, links opened apart and without a referrer,
 * each code block with a copy button.
 */
export function renderMarkdown(text: string): DocumentFragment {
  const html = marked.parse(text, { async: false })
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ['href', 'align', 'start', 'class'],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  })
  for (const link of fragment.querySelectorAll('a')) {
    link.target = '_blank'
    link.rel = 'noopener noreferrer nofollow'
  }
  for (const element of fragment.querySelectorAll('[class]')) {
    // Only the language of a code block is kept, never a class of the page's own.
    const language = /^language-[\w+#.-]{1,30}$/.exec(element.className)?.[0]
    if (element.tagName === 'CODE' && language) element.className = language
    else element.removeAttribute('class')
  }
  for (const pre of fragment.querySelectorAll('pre')) {
    const box = document.createElement('div')
    box.className = 'code'
    pre.replaceWith(box)
    pre.tabIndex = 0
    const language = pre.querySelector('code')?.className.slice('language-'.length)
    const copy = copyButton(() => pre.textContent ?? '')
    box.append(h('div', { class: 'bar row' }, language, h('span', { class: 'space' }), copy), pre)
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = document.createElement('div')
    box.className = 'table'
    box.tabIndex = 0
    table.replaceWith(box)
    box.append(table)
  }
  return fragment
}
