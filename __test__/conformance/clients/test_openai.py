import json
import unittest

import openai
from common import BASE_URL, CASES, KEY, TOOLS, cuts_off, user

client = openai.OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
MODEL = {"model": CASES["model"], "temperature": 0}


class OpenAIPackage(unittest.TestCase):
    def test_chat_reasoning_usage(self):
        completion = client.chat.completions.create(**MODEL, messages=user(CASES["question"]))
        choice, usage = completion.choices[0], completion.usage
        self.assertEqual(choice.message.content, CASES["answer"])
        self.assertIn("Paris", choice.message.model_extra["reasoning_content"])
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertGreater(usage.completion_tokens_details.reasoning_tokens, 0)

    def test_stream(self):
        pieces, reasoning, usage = [], "", None
        options = {"include_usage": True}
        for chunk in client.chat.completions.create(**MODEL, messages=user(CASES["question"]), stream=True, stream_options=options):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                reasoning += (choice.delta.model_extra or {}).get("reasoning_content", "")
                if choice.delta.content:
                    pieces.append(choice.delta.content)
        self.assertEqual("".join(pieces), CASES["answer"])
        self.assertGreater(len(pieces), 1)
        self.assertIn("Paris", reasoning)
        self.assertGreater(usage.completion_tokens, len(pieces))

    def test_tools(self):
        messages = user(CASES["weather"])
        first = client.chat.completions.create(**MODEL, messages=messages, tools=TOOLS).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        self.assertEqual(call.function.name, CASES["tool"]["name"])
        self.assertEqual(json.loads(call.function.arguments), CASES["arguments"])
        messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps(CASES["result"])}]
        second = client.chat.completions.create(**MODEL, messages=messages, tools=TOOLS).choices[0]
        for word in CASES["report"]:
            self.assertIn(word, second.message.content)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(**MODEL, messages=user("x"), n=2)
        self.assertEqual(caught.exception.param, "n")
        with self.assertRaises(openai.AuthenticationError):
            client.with_options(api_key="wrong").models.list()

    def test_abort(self):
        slow = {**MODEL, "messages": user(CASES["slow"])}
        with cuts_off(), client.chat.completions.create(**slow, stream=True) as stream:
            for _ in zip(range(3), stream):
                pass
        with cuts_off(), self.assertRaises(openai.APITimeoutError):
            client.with_options(timeout=0.2).chat.completions.create(**slow)


if __name__ == "__main__":
    unittest.main()
