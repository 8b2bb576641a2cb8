/** A program for the process tests: resolves the model named in its argument and prints the path. Its environment holds the rest. */
import { resolveModel } from '../../src/hub/index.js'

const { path } = await resolveModel(process.argv[2] ?? '', { env: process.env, retryPauseMs: 5 })
process.stdout.write(`${path}\n`)
