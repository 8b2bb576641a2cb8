/** What a loaded model says of itself. */
export interface ModelInfo {
  /** Where the weights came from: a folder, a file or a repo id. */
  readonly modelPath: string
  readonly vocabSize: number
  readonly layers: number
  readonly hiddenSize: number
  readonly experts: number
  readonly expertsPerToken: number
  readonly slidingWindow: number
  /** Largest number of tokens of prompt and answer together. */
  readonly contextLength: number
  /** Numeric mode: `float32`, `int16` or `int8`. */
  readonly dtype: string
  /** Kernel set picked at run time, for example `avx512vnni`. */
  readonly isa: string
  /** Name of the attention code path. */
  readonly attention: string
  readonly threads: number
  /** Experts (of all layers) whose three matrices are held packed at two bits. */
  readonly packedExperts: number
  readonly loadSeconds: number
  /** Bytes of weights held or mapped. */
  readonly weightBytes: number
  /** Checkpoint format: `hf`, `mlx`, `gguf` or `packed`. */
  readonly format: string
  /** Things worth telling the operator, one line each. */
  readonly warnings: readonly string[]
}

/** How one answer is to be drawn. Absent means the default in brackets. */
export interface GenerateParams {
  /** Most tokens to generate [until the context is full]. */
  maxTokens?: number | undefined
  /** 0 is greedy [0.6]. */
  temperature?: number | undefined
  /** Keep the k likeliest tokens; 0 or -1 turns it off [20]. */
  topK?: number | undefined
  /** Smallest set whose mass reaches this, in (0, 1] [0.95]. */
  topP?: number | undefined
  /** Above 1 discourages tokens of prompt and answer [1]. */
  repetitionPenalty?: number | undefined
  /** Any integer, folded to 64 bits [random]. */
  seed?: number | bigint | undefined
  /** Go on past end tokens [false]. */
  ignoreEos?: boolean | undefined
  /** Ids that end the answer [the checkpoint's]. */
  endTokens?: readonly number[] | undefined
  /** Prompt positions worth keeping a reusable state of, for example where the last turn starts. */
  snapshotAt?: readonly number[] | undefined
  signal?: AbortSignal | undefined
}

/** One generated token, or the end of the answer. */
export type TokenEvent =
  | {
      readonly token: number
      readonly finishReason?: undefined
      /** Prompt tokens whose KV entries were reused, so that a reader that leaves early knows too. */
      readonly cachedTokens?: number | undefined
    }
  | {
      readonly token?: undefined
      readonly finishReason: 'stop' | 'length'
      readonly promptTokens: number
      /** Prompt tokens whose KV entries were reused. */
      readonly cachedTokens: number
      readonly completionTokens: number
    }

/** A model as tokens see it: ids in, ids out. */
export interface TokenEngine {
  readonly info: ModelInfo
  /** Pulls tokens; leaving the loop early cancels the generation. Aborting rejects with the signal's reason. */
  generate(promptIds: Uint32Array | readonly number[], params?: GenerateParams): AsyncIterable<TokenEvent>
  /** Logits (vocabSize each) after each of the asked positions, with the head at source precision. */
  logits(
    ids: Uint32Array | readonly number[],
    options?: { positions?: readonly number[]; signal?: AbortSignal },
  ): Promise<Float32Array[]>
  dispose(): Promise<void>
}
