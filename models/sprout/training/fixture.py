"""Writes ids and logits of the reference forward pass on held-out prompts, for tests of other engines.

    python fixture.py PROMPTS.json FOLDER [MODEL]

``golden.json``: ``cases``, one a kind, with the prompt as text and ids, the greedy ids to the end token, and the prompt position
whose logits (f32, computed in f64) are in ``golden.safetensors`` under the name given.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from evaluate import LIMIT, read, stops
from reference import Reference
from tokenizer import MODEL

EVEN = 1e-2  # a case with a closer choice between two tokens than this, relative to the row, is no test of an engine


def main(prompts: Path, folder: Path, source: Path = MODEL):
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    model, stop = Reference(source, torch.float64), stops(source, tokenizer)
    cases, tensors, seen = [], {}, set()
    for i in read(prompts):
        if i["kind"] in seen:
            continue
        ids = tokenizer.encode(i["prompt"]).ids
        greedy, rows = model.generate([ids], LIMIT, stop, keep_logits=True)
        rows = torch.stack(rows[0])
        top = rows.topk(2, -1).values
        if float(((top[:, 0] - top[:, 1]) / rows.abs().amax(-1)).min()) < EVEN:
            continue
        seen.add(i["kind"])
        name = i["kind"]
        tensors[name] = rows[:1].float().clone()
        cases.append({"kind": name, "text": i["prompt"], "prompt": ids, "greedy": greedy[0], "positions": [len(ids) - 1], "logits": name,
                      "output": tokenizer.decode(greedy[0], skip_special_tokens=False)})
    folder.mkdir(parents=True, exist_ok=True)
    golden = {"relative_to": "max |logit| of the row", "bounds": {"float32": 1e-4, "int16": 3e-3}, "cases": cases}
    (folder / "golden.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    save_file(tensors, folder / "golden.safetensors")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
