export { Maple } from './maple.js'
export type { CallOptions, Completion, LoadOptions, LoadProgress } from './maple.js'
export type { GenerateParams, ModelInfo, TokenEngine, TokenEvent } from './engine/types.js'
export type {
  ChatEvent,
  ChatMessage,
  ChatParams,
  CompletionEvent,
  CompletionParams,
  PreparedPrompt,
  PromptParams,
  SamplingParams,
  Tool,
  ToolCall,
  ToolChoice,
  Usage,
} from './chat/types.js'
export type { Detokenizer, TextModel } from './text/types.js'
export * from './errors.js'
export { resolveModel } from './hub/index.js'
export type { DownloadProgress, ResolveOptions, ResolvedModel } from './hub/index.js'
export { createServer } from './server/app.js'
export type { AppOptions } from './server/app.js'
export type { ServedModel } from './server/model.js'
export { createConfig } from './config.js'
export type { Config } from './config.js'
