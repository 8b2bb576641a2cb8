"""Checks that the training model, its export and the reference forward pass are the same function.

    python check.py
"""

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from export import config_json, named
from model import Config, Sprout
from reference import Reference


def difference() -> float:
    """The largest difference of logits, relative to the largest logit, on lengths that pass window and block sizes."""
    model = Sprout(Config(sliding_window=20), seed=3)
    with tempfile.TemporaryDirectory() as folder:
        save_file(named(model), Path(folder) / "model.safetensors")
        (Path(folder) / "config.json").write_text(json.dumps(config_json(model.config)))
        reference = Reference(folder)
    w = {n: t.float() for n, t in model.leaves().items()}
    worst = 0.0
    for t in (5, 20, 64, 128, 200):
        tokens = torch.randint(0, model.config.vocab_size, (2, t), generator=torch.Generator().manual_seed(t))
        with torch.no_grad():
            a, _ = model(w, tokens, torch.arange(2 * t))
            b = reference.forward(tokens).view(2 * t, -1)
        worst = max(worst, float((a - b).abs().max() / b.abs().max()))
    return worst


if __name__ == "__main__":
    worst = difference()
    print(f"training model and reference differ by {worst:.1e} of the largest logit")
    if worst > 1e-5:
        raise SystemExit("they must agree to 1e-5")
