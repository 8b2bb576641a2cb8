import json
import unittest

import litellm
from common import BASE_URL, CASES, KEY, TOOLS, cuts_off, user

COMMON = {"model": f"openai/{CASES['model']}", "api_base": BASE_URL, "api_key": KEY, "temperature": 0, "max_retries": 0}


class LiteLLM(unittest.TestCase):
    def test_chat_reasoning_usage(self):
        completion = litellm.completion(**COMMON, messages=user(CASES["question"]))
        choice, usage = completion.choices[0], completion.usage
        self.assertEqual(choice.message.content, CASES["answer"])
        self.assertIn("Paris", choice.message.reasoning_content)
        self.assertEqual(choice.finish_reason, "stop")
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertGreater(usage.completion_tokens_details.reasoning_tokens, 0)

    def test_stream(self):
        pieces, reasoning, usage = [], "", None
        options = {"include_usage": True}
        for chunk in litellm.completion(**COMMON, messages=user(CASES["question"]), stream=True, stream_options=options):
            usage = getattr(chunk, "usage", None) or usage
            for choice in chunk.choices:
                reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                if choice.delta.content:
                    pieces.append(choice.delta.content)
        self.assertEqual("".join(pieces), CASES["answer"])
        self.assertGreater(len(pieces), 1)
        self.assertIn("Paris", reasoning)
        self.assertGreater(usage.completion_tokens, len(pieces))

    def test_tools(self):
        messages = user(CASES["weather"])
        first = litellm.completion(**COMMON, messages=messages, tools=TOOLS).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        self.assertEqual(call.function.name, CASES["tool"]["name"])
        self.assertEqual(json.loads(call.function.arguments), CASES["arguments"])
        messages += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": json.dumps(CASES["result"])}]
        second = litellm.completion(**COMMON, messages=messages, tools=TOOLS).choices[0]
        for word in CASES["report"]:
            self.assertIn(word, second.message.content)

    def test_errors(self):
        with self.assertRaises(litellm.BadRequestError) as caught:
            litellm.completion(**COMMON, messages=user("x"), top_p=7)
        self.assertIn("top_p", str(caught.exception))
        with self.assertRaises(litellm.AuthenticationError):
            litellm.completion(**{**COMMON, "api_key": "wrong"}, messages=user("x"))

    def test_abort(self):
        slow = {**COMMON, "messages": user(CASES["slow"])}
        with cuts_off(), self.assertRaises(litellm.Timeout):
            litellm.completion(**slow, timeout=0.2)


if __name__ == "__main__":
    unittest.main()
