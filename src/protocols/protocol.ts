import type { Answer } from '../chat/collect.js'
import type { ChatEvent, ChatParams, CompletionParams, PromptParams } from '../chat/types.js'
import type { RequestDefaults } from '../wire/defaults.js'
import type { ApiError, ErrorForm } from '../wire/errors.js'
import type { Examples, JsonSchema } from '../wire/json-schema.js'
import type { Validator } from '../wire/schema.js'

/** What a body is read with. */
export interface ReadContext {
  readonly defaults: RequestDefaults
  /** The model's name as the answer repeats it. */
  readonly model: string
  readonly vocabSize: number
}

/** What the model is asked: a conversation, or a raw prompt as text or ids. */
export type Work =
  | { readonly kind: 'chat'; readonly params: ChatParams }
  | { readonly kind: 'raw'; readonly prompt: string | Uint32Array; readonly params: CompletionParams }

/** A request, read. */
export interface Reading {
  readonly work: Work
  readonly stream: boolean
  /** Worth a line in the log, each at its first time; fixed words and names of types, nothing else of the request. */
  readonly notes?: readonly string[]
  /** The form of the one answer. Called once, when the prompt is known to fit, before the request stands in line. */
  answer(prompt: { readonly tokens: number }): AnswerForm
}

/** One answer on the wire, whole or as a stream. Only one of the two is used. */
export interface AnswerForm {
  /** The body of an answer that is not streamed. */
  whole(answer: Answer): object
  readonly stream: StreamForm
}

/** A stream: each call returns frames as text, or '' for none. Nothing is called after `end` or `fail`. */
export interface StreamForm {
  /** Sent once a slot is granted, before the model has said anything. */
  start(): string
  push(event: ChatEvent): string
  /** Sent after the frames of the finish event. */
  end(): string
  /** Instead of `end` when something broke; `start` may not have been called. */
  fail(error: ApiError): string
  /** Sent after some silence; before `start`, too, while the request stands in line. */
  keepAlive(): string
}

/** What the API document says of a method. */
export interface OperationText {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
}

/** A body that names a model, or none. */
export interface ModelBody {
  readonly model?: string | null
}

/** A POST that the model answers. */
export interface AnswerOperation extends OperationText {
  readonly kind: 'answer'
  readonly request: Validator<ModelBody>
  readonly examples: (defaults: RequestDefaults) => Examples
  readonly whole: JsonSchema
  readonly chunks: {
    /** Schema of one event's data. */
    readonly schema: JsonSchema
    /** Schema of the stream's frames, and a whole stream. */
    readonly frames: JsonSchema
    readonly example: string
  }
  /** Checks what schemas cannot, and turns the body into work. Throws {@link ApiError}. */
  read(body: ModelBody, context: ReadContext): Reading
}

/** A POST that counts the tokens of a prompt and never runs the model. */
export interface CountOperation extends OperationText {
  readonly kind: 'count'
  readonly request: Validator<ModelBody>
  readonly examples: (defaults: RequestDefaults) => Examples
  readonly whole: JsonSchema
  read(body: ModelBody, context: ReadContext): PromptParams
  reply(tokens: number): object
}

/** A GET or DELETE, answered from its path alone. */
export interface PlainOperation extends OperationText {
  readonly kind: 'plain'
  /** Schema of the answer; absent where there never is one. */
  readonly whole?: JsonSchema
  /** The body of the answer, or a thrown {@link ApiError}. */
  reply(parameters: Readonly<Record<string, string>>): object
}

/** A path and its methods. */
export interface Endpoint {
  /** As the API document has it: `/v1/things/{id}`; a parameter is one segment. */
  readonly path: string
  /** The field to blame where the prompt is empty or too long. */
  readonly promptField: string
  readonly post?: AnswerOperation | CountOperation
  readonly get?: PlainOperation
  readonly delete?: PlainOperation
}

/** One way to talk to the model over HTTP. The server's routes and the API document follow from it. */
export interface Protocol {
  readonly name: string
  readonly endpoints: readonly Endpoint[]
  /** Of all errors on its paths and on unknown paths below them, those before its handlers included. */
  readonly errors: ErrorForm
  /** A header that may hold the bare key, beside `Authorization: Bearer`. */
  readonly keyHeader?: string
  /** Schemas that have a name of their own in the API document. */
  readonly components: Readonly<Record<string, JsonSchema>>
}
