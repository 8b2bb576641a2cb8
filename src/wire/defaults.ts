/** What requests fall back to, and the limits they meet; a part of the server's configuration. */
export interface RequestDefaults {
  readonly modelId: string
  readonly strictModel: boolean
  readonly maxNewTokens: number
  readonly maxNewTokensLimit: number
  readonly maxPromptTokens: number
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly enableThinking: boolean
  readonly includeReasoning: boolean
}
