export { Marked } from 'marked'
