"""Held-out evaluation.

    python evaluate.py prompts PROMPTS              writes the prompts and what is right (200 a kind), as JSON, with .gz compressed
    python evaluate.py run PROMPTS [MODEL]          greedy answers of the reference forward pass, graded
        --kinds a,b --count 50                     only some
        --answers OUT.json                         also keeps the token ids
"""

import argparse
import gzip
import json
import re
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from data.draw import Draw
from data.mix import KINDS, draw, render, written
from reference import Reference
from tokenizer import MODEL

LIMIT = 200
SEED = "evaluation"
# Kinds of the table that are not kinds of the mixture: the same tasks with thinking off.
NO_THINKING = ["capital", "phrase", "one_word", "small_talk", "tool_single", "tool_two", "tool_result", "sum"]


def read(file: Path) -> list:
    """The items of a prompts file, compressed or not."""
    raw = file.read_bytes()
    return json.loads(gzip.decompress(raw) if file.suffix == ".gz" else raw)


def write(file: Path, items: list):
    raw = json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()
    file.write_bytes(gzip.compress(raw, 9, mtime=0) if file.suffix == ".gz" else raw)


def item(kind: str, sample) -> dict:
    return {"kind": kind, "prompt": render(sample), "grade": sample.grade, "thinking": sample.thinking and sample.prompt is None,
            "expected": written(sample).split("</think>\n\n")[-1].replace("<|im_end|>", "").replace("<|endoftext|>", "")}


def prompts(count: int) -> list:
    """``count`` held-out prompts a kind, no two alike where the kind has that many."""
    items = []
    for kind in list(KINDS) + [f"{k}_no_thinking" for k in NO_THINKING]:
        base, off = kind.removesuffix("_no_thinking"), kind.endswith("_no_thinking")
        d, seen, tries = Draw(f"{SEED}-{kind}", test=True), set(), 0
        while len(seen) < count and tries < 400000:
            tries += 1
            s = draw(d, base)
            if s.prompt is None and s.thinking == off:
                continue
            if off and base == "sum" and s.target["content"].count("\n") == 0:
                continue  # a bare number without any working is a guess
            i = item(kind, s)
            if i["prompt"] not in seen or (tries > 20 * count and base == "small_talk"):
                seen.add(i["prompt"] if i["prompt"] not in seen else (i["prompt"], tries))
                items.append(i)
    return items


CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.S)
NUMBER = re.compile(r"-?\d+")


def right(item: dict, text: str) -> bool:
    """Whether the raw output answers: ``exact`` text, the last ``number``, or the same ``calls`` with the same arguments."""
    if item["thinking"] and "</think>" not in text:
        return False
    content = text.split("</think>")[-1].lstrip("\n") if item["thinking"] else text
    for end in ("<|im_end|>", "<|endoftext|>"):
        content = content.removesuffix(end)
    if item["grade"] == "number":
        got, want = NUMBER.findall(content), NUMBER.findall(item["expected"])
        return bool(got) and got[-1] == want[-1]
    if item["grade"] == "calls":
        try:
            return [json.loads(c) for c in CALL.findall(content)] == [json.loads(c) for c in CALL.findall(item["expected"])]
        except json.JSONDecodeError:
            return False
    return content == item["expected"]


def answer(items, model: Reference, tokenizer, stop, rows: int = 40):
    """Greedy token ids for every item, prompts of like length together."""
    ids = [tokenizer.encode(i["prompt"]).ids for i in items]
    out = [None] * len(items)
    order = sorted(range(len(items)), key=lambda i: len(ids[i]))
    for at in range(0, len(order), rows):
        group = order[at: at + rows]
        for i, tokens in zip(group, model.generate([ids[i] for i in group], LIMIT, stop)):
            out[i] = tokens
    return out


def stops(folder: Path, tokenizer):
    return {json.loads((folder / "config.json").read_text())["eos_token_id"], tokenizer.token_to_id("<|endoftext|>")}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("what", choices=["prompts", "run"])
    a.add_argument("file", type=Path)
    a.add_argument("model", type=Path, nargs="?", default=MODEL)
    a.add_argument("--count", type=int, default=200)
    a.add_argument("--kinds", default="")
    a.add_argument("--answers", type=Path)
    a.add_argument("--wrong", type=int, default=0, help="show this many wrong answers a kind")
    a.add_argument("--threads", type=int, default=2)
    o = a.parse_args()
    torch.set_num_threads(o.threads)
    if o.what == "prompts":
        write(o.file, prompts(o.count))
        return
    tokenizer = Tokenizer.from_file(str(o.model / "tokenizer.json"))
    model, stop = Reference(o.model), stops(o.model, tokenizer)
    every, kept, start = read(o.file), [], time.time()
    kinds = o.kinds.split(",") if o.kinds else list(dict.fromkeys(i["kind"] for i in every))
    for kind in kinds:
        items = [i for i in every if i["kind"] == kind][: o.count]
        answers = answer(items, model, tokenizer, stop)
        texts = [tokenizer.decode(t, skip_special_tokens=False) for t in answers]
        wrong = [(i, t) for i, t in zip(items, texts) if not right(i, t)]
        print(f"{kind:26} {len(items) - len(wrong):4}/{len(items)}  {100 - 100 * len(wrong) / len(items):5.1f} %", flush=True)
        for i, t in wrong[: o.wrong]:
            print("   ", json.dumps([i["prompt"][-220:], i["expected"], t], ensure_ascii=False))
        kept += [{"kind": kind, "prompt": i["prompt"], "ids": t} for i, t in zip(items, answers)]
    if o.answers:
        write(o.answers, kept)
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
