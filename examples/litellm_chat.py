"""LiteLLM: one answer, with its reasoning and what it cost in tokens."""

import os

import litellm

answer = litellm.completion(
    model="openai/maple-preview",
    api_base=os.environ.get("OPENAI_BASE_URL", "http://localhost:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
)
message = answer.choices[0].message
print(f"({message.reasoning_content})")
print(message.content)
print(f"{answer.usage.total_tokens} tokens")
