"""A conversation of two turns, each answer streamed as it comes."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://localhost:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "none"),
)

messages = []
for question in ["What is the capital of France?", "What about Italy?"]:
    messages.append({"role": "user", "content": question})
    print(f"> {question}")
    answer = ""
    with client.chat.completions.create(model="maple-preview", messages=messages, temperature=0, stream=True) as stream:
        for chunk in stream:
            piece = chunk.choices[0].delta.content or ""
            answer += piece
            print(piece, end="", flush=True)
    print()
    messages.append({"role": "assistant", "content": answer})
