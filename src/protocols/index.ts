import { chat } from './chat/index.js'
import { completions } from './completions/index.js'
import type { Protocol } from './protocol.js'
import { responses } from './responses/index.js'

/** All protocols that the server speaks, in the order of the API document. */
export const protocols: readonly Protocol[] = [chat, completions, responses]
