#!/bin/sh
# The API with nothing but curl. -f ends with an error code where the server answers with one; -N shows a stream as it comes.
set -eu
url=${OPENAI_BASE_URL:-http://localhost:8000/v1}
key=${OPENAI_API_KEY:-none}

api() {
    path=$1
    shift
    curl -sfN "$url$path" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"
    echo
}

echo '# The model'
api /models

echo '# An answer, whole'
api /chat/completions -d '{"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}'

echo '# An answer, streamed, without reasoning'
api /chat/completions -d '{
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0, "stream": true, "chat_template_kwargs": {"enable_thinking": false}
}'

echo '# A tool call'
api /chat/completions -d '{
    "messages": [{"role": "user", "content": "What is the weather in Lagos?"}], "temperature": 0,
    "tools": [{"type": "function", "function": {
        "name": "get_weather", "description": "Get the weather for a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    }}]
}'

echo '# Raw text that goes on'
api /completions -d '{"prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}'
