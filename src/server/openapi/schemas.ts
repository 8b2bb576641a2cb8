import { constant, count, object, text, type JsonSchema } from '../../wire/json-schema.js'

export const modelSchema: JsonSchema = object('The model that is served.', {
  id: text('MAPLE_MODEL_ID. May hold slashes.'),
  object: constant('model', 'What this is.'),
  created: count('Unix time in seconds at which the server started.'),
  owned_by: constant('deepgrove', 'Who made it.'),
})

export const modelListSchema: JsonSchema = object('A list of the one model.', {
  object: constant('list', 'What this is.'),
  data: { type: 'array', description: 'One entry.', minItems: 1, maxItems: 1, items: modelSchema },
})

const healthHead = {
  model: text('MAPLE_MODEL_ID.'),
  model_path: text('Where the weights come from: a repo id, a folder or a file.'),
}
const healthTail = {
  queue_depth: count('Requests that wait for a slot.'),
  active: count('Requests that hold a slot.'),
  version: text('Version of the server.'),
}

/** `/health` with status 200. */
export const healthSchema: JsonSchema = {
  description: 'The model is there, or on its way.',
  anyOf: [
    object('The model is there.', {
      status: constant('ok', 'Requests are answered.'),
      ...healthHead,
      device: constant('cpu', 'Where the model runs.'),
      dtype: text('The numeric mode, and how many experts are packed.'),
      attention: text('The code path of the attention.'),
      simd: text('The kernel set that was picked at run time.'),
      context_length: count('Most tokens of prompt and answer together.'),
      load_seconds: { type: 'number', minimum: 0, description: 'What loading took.' },
      ...healthTail,
    }),
    object('The model is being loaded; requests get 503 model_loading.', {
      status: constant('loading', 'Not yet.'),
      ...healthHead,
      phase: {
        enum: ['download', 'convert', 'load', null],
        description: 'What is being done; null where nothing is known yet.',
      },
      loaded_bytes: count('Bytes done of the phase.'),
      total_bytes: count('Bytes of the phase in all; 0 where this is not known.'),
      ...healthTail,
    }),
  ],
}

/** `/health` with status 503. */
export const unhealthySchema: JsonSchema = object(
  'There will be no answers: loading failed, or the server is stopping.',
  {
    status: { enum: ['error', 'shutting_down'], description: 'error: loading failed. shutting_down: after SIGTERM.' },
    message: text('Why loading failed. Absent when the server is stopping.'),
    ...healthHead,
    ...healthTail,
  },
  ['message'],
)
