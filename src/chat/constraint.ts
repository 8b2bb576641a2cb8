import { createError } from '../errors.js'
import type { ConstraintParams } from './types.js'

/**
 * Refuses what the engine cannot hold an answer to, rather than ignore it. Throws `INVALID_REQUEST`: the only place that
 * does, for every protocol and for programs.
 */
export function checkConstraint({ constraint, strictTools = [] }: ConstraintParams): void {
  if (constraint !== undefined) {
    const message = `This version cannot hold an answer to a ${constraint.type} constraint. Ask for text, and say in the prompt what it should look like.`
    throw createError('INVALID_REQUEST', message)
  }
  if (strictTools.length > 0) {
    const message = `This version cannot enforce the parameters of the tool ${JSON.stringify(strictTools[0])}. Leave "strict" out or set it to false.`
    throw createError('INVALID_REQUEST', message, { param: 'tools' })
  }
}
