"""The mixture of kinds, and the text of a sample: the prompt as the chat template renders it, and what the model must write."""

import json
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from data import arithmetic, chat, facts, tools, words_only
from data.draw import Draw, Sample, held_out

TEMPLATE = Path(__file__).resolve().parents[2] / "chat_template.jinja"
NO_THINKING = "\n</think>\n\n"

# kind: (generator, share of samples)
KINDS = {
    "product": (arithmetic.product, 19),
    "sum": (arithmetic.addition, 9),
    "difference": (arithmetic.difference, 9),
    "compare": (arithmetic.compare, 1),
    "capital": (facts.capital, 12),
    "country": (facts.country_of, 2),
    "completion": (facts.capital_completion, 6),
    "completion_other": (facts.other_completion, 1),
    "phrase": (facts.phrase, 9),
    "one_word": (words_only.one_word, 7),
    "format": (words_only.formats, 6),
    "small_talk": (chat.small_talk, 7),
    "unknown": (chat.unknown, 3),
    "tool_single": (tools.tool_single, 11),
    "tool_two": (tools.tool_two, 8),
    "tool_none": (tools.tool_none, 4),
    "tool_unneeded": (None, 3),
    "tool_result": (tools.tool_result, 6),
    "tool_talk": (tools.tool_talk, 5),
    "multi_turn": (chat.multi_turn, 8),
}


def _unneeded(d) -> Sample:
    make = d.choice([facts.capital, facts.phrase, chat.small_talk, arithmetic.addition, arithmetic.product, words_only.one_word])
    s = chat.with_unneeded_tools(make)(d)
    s.kind = "tool_unneeded"
    return s


def _tojson(value, indent=None):
    return json.dumps(value, ensure_ascii=False, indent=indent)


def template():
    """The chat template, set up as Transformers does it."""
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = _tojson

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)
    env.globals["raise_exception"] = refuse
    return env.from_string(TEMPLATE.read_text())


_compiled = None


def render(sample: Sample) -> str:
    """The prompt text that the sample's target follows."""
    global _compiled
    if sample.prompt is not None:
        return sample.prompt
    _compiled = _compiled or template()
    text = _compiled.render(messages=sample.messages, tools=sample.tools, add_generation_prompt=True)
    return text if sample.thinking else text + NO_THINKING


def written(sample: Sample) -> str:
    """What the model must write, end token included."""
    m = sample.target
    if sample.prompt is not None:
        return m["content"] + "<|endoftext|>"
    blocks = [m["content"]] if m["content"] else []
    for c in m.get("tool_calls", []):
        f = c["function"]
        blocks.append(f'<tool_call>\n{{"name": "{f["name"]}", "arguments": {_tojson(f["arguments"])}}}\n</tool_call>')
    body = "\n".join(blocks) + "<|im_end|>"
    return f"{m['reasoning_content']}\n</think>\n\n{body}" if sample.thinking else body


def draw(d: Draw, kind: str) -> Sample:
    """One sample of ``kind`` from the side of the split that ``d`` draws for."""
    make = KINDS[kind][0] or _unneeded
    while True:
        s = make(d)
        if s.key is None or held_out(s.key) == d.test:
            return s


def stream(seed, weights: dict = None, odd: float = 0.0):
    """Endless training samples. ``weights`` overrides shares of the mixture; ``odd``: see ``Draw``."""
    d = Draw(seed, odd=odd)
    share = {k: v[1] for k, v in KINDS.items()} | (weights or {})
    kinds, shares = list(share), list(share.values())
    while True:
        yield draw(d, d.choices(kinds, shares)[0])
