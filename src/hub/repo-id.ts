import { ModelError } from '../errors.js'

/** A model's name on the hub, taken apart and checked. */
export interface RepoId {
  /** `org/name`. */
  readonly id: string
  /** Branch, tag or commit; `main` when none was given. */
  readonly revision: string
  /** The GGUF file asked for, with forward slashes. */
  readonly file: string | undefined
}

/** Takes `org/name`, `org/name@revision`, `org/name:file.gguf` or `org/name@revision:file.gguf` apart, by the hub's own rules. */
export function parseRepoId(spec: string): RepoId {
  const colon = spec.indexOf(':')
  const left = colon < 0 ? spec : spec.slice(0, colon)
  const file = colon < 0 ? undefined : spec.slice(colon + 1)
  const at = left.indexOf('@')
  const id = at < 0 ? left : left.slice(0, at)
  const revision = at < 0 ? 'main' : left.slice(at + 1)
  const refuse = (why: string): ModelError =>
    new ModelError(
      'MODEL_NOT_FOUND',
      `"${printable(spec)}" is neither a path on this disk nor the name of a model on the hub: ${why}. A name reads org/name, org/name@revision or org/name:file.gguf.`,
    )
  const parts = id.split('/')
  if (parts.length !== 2) throw refuse('a name has an organisation and a model, with one slash between')
  for (const part of parts) {
    if (!/^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?$/.test(part)) {
      throw refuse(
        `"${printable(part)}" must be 1 to 96 letters, digits, "-", "_" or ".", with no "-" or "." at its ends`,
      )
    }
  }
  if (/--|\.\./.test(id)) throw refuse('it may not hold "--" or ".."')
  if (id.endsWith('.git')) throw refuse('it may not end in ".git"')
  if (!isRevision(revision)) throw refuse(`"${printable(revision)}" is not a branch, a tag or a commit`)
  if (file !== undefined && (!isSafeFileName(file) || !file.toLowerCase().endsWith('.gguf'))) {
    throw refuse(`"${printable(file)}" is not the name of a .gguf file in the repo`)
  }
  return { id, revision, file }
}

/** Whether a revision is named by its full commit hash. */
export function isCommit(revision: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(revision)
}

/** Whether git would take this as a branch, a tag or a commit, so that it is also safe as a path below `refs`. */
export function isRevision(revision: string): boolean {
  return (
    revision.length > 0 &&
    revision.length <= 255 &&
    !/[\p{Cc} ~^:?*[\]\\"<>|]|\.\.|@\{|[./]$/u.test(revision) &&
    revision
      .split('/')
      .every((part) => part !== '' && !part.startsWith('.') && !part.startsWith('-') && !part.endsWith('.lock'))
  )
}

/** Whether a name from a listing stays inside the folder it belongs to, on any system. */
export function staysInside(name: string): boolean {
  return (
    name.length <= 4096 &&
    !name.includes('\0') &&
    !/^[A-Za-z]:/.test(name) &&
    name.split(/[\\/]/).every((part) => part !== '' && part !== '.' && part !== '..')
  )
}

/** Whether a file of this name can be written on any system. */
export function isSafeFileName(name: string): boolean {
  return (
    staysInside(name) &&
    !/[\p{Cc}\\:*?"<>|]/u.test(name) &&
    name.split('/').every((part) => Buffer.byteLength(part) <= 255)
  )
}

/** A piece of text from outside, fit for one line of an error message. */
export function printable(text: string): string {
  const clean = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD')
  return clean.length > 120 ? `${clean.slice(0, 119)}…` : clean
}
