"""Trains sprout. Resumes from the checkpoint if there is one; the data of step n depends on the seed and n alone.

    python train.py --run /tmp/sprout --steps 5000 --cooldown 1500
"""

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import model as model_file
from data.draw import Draw
from data.mix import KINDS, render, stream, written
from model import TERNARY, Config, Sprout
from optimiser import Optimiser
from tokenizer import MODEL

KIND_IDS = {k: i for i, k in enumerate(KINDS)}


def batch(tokenizer, seed, budget: int, longest: int, weights: dict, odd: float):
    """Encoded samples [(prompt ids, target ids, kind, has tools)] of about ``budget`` tokens."""
    out, total = [], 0
    source = stream(seed, weights, odd)
    while total < budget:
        samples = [next(source) for _ in range(16)]
        prompts = tokenizer.encode_batch([render(s) for s in samples])
        targets = tokenizer.encode_batch([written(s) for s in samples])
        for s, p, t in zip(samples, prompts, targets):
            if len(p) + len(t) <= longest:
                out.append((p.ids, t.ids, KIND_IDS[s.kind], bool(s.tools)))
                total += len(p) + len(t)
    return out


def micro_batches(samples, budget: int):
    """Samples of like length together, at most ``budget`` tokens with padding."""
    samples = sorted(samples, key=lambda s: len(s[0]) + len(s[1]))
    group, width = [], 0
    for s in reversed(samples):
        n = -(-(len(s[0]) + len(s[1]) - 1) // 16) * 16
        if group and (len(group) + 1) * width > budget:
            yield group, width
            group, width = [], 0
        group.append(s)
        width = max(width, n)
    yield group, width


def earlier(prompt, marks) -> list:
    """Which tokens of a prompt the assistant wrote in earlier turns; ``marks``: the ids before and after its words."""
    (start, role, line), end = marks
    out, inside = [False] * len(prompt), False
    for j, token in enumerate(prompt):
        out[j] = inside
        if inside and token == end:
            inside = False
        elif prompt[j - 2: j + 1] == [start, role, line] and end in prompt[j:]:
            inside = True
    return out


def tensors(group, width: int, draw, prompt_share: float, marks):
    """Inputs [B, T]; flat positions with a loss, their targets, weights (prompt tokens count a little) and kinds."""
    x = torch.zeros(len(group), width, dtype=torch.long)
    select, target, weight, kind = [], [], [], []
    for i, (p, t, k, tools) in enumerate(group):
        ids = p + t
        x[i, : len(ids) - 1] = torch.tensor(ids[:-1])
        said = earlier(p, marks) if tools else [False] * len(p)  # an earlier sum has no working to learn from
        for j in range(len(p) - 1):
            if said[j + 1] or draw.random() < prompt_share:
                select.append(i * width + j), target.append(ids[j + 1])
                weight.append(1.0 if said[j + 1] else 0.3), kind.append(-1)
        for j in range(len(p) - 1, len(ids) - 1):
            select.append(i * width + j), target.append(ids[j + 1]), weight.append(1.0), kind.append(k)
    return x, torch.tensor(select), torch.tensor(target), torch.tensor(weight), torch.tensor(kind)


def schedule(step: int, steps: int, cooldown: int, warmup: int) -> float:
    """Warm-up, constant, linear cool-down to nearly zero."""
    return min((step + 1) / warmup, 1.0, max((steps - step) / max(cooldown, 1), 0.02) if step > steps - cooldown else 1.0)


def save(path: Path, model, optimiser, step: int, tokens: int):
    """Writes the checkpoint beside the old one and swaps: an interrupted write loses nothing."""
    fresh = path.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step, "tokens": tokens,
                "config": model.config_dict()}, fresh)
    os.replace(fresh, path)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", type=Path, required=True, help="folder of checkpoint and log")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--steps", type=int, default=5000)
    a.add_argument("--cooldown", type=int, default=1500)
    a.add_argument("--warmup", type=int, default=60)
    a.add_argument("--tokens-per-step", type=int, default=4096)
    a.add_argument("--micro", type=int, default=1024)
    a.add_argument("--longest", type=int, default=640)
    a.add_argument("--muon-lr", type=float, default=0.015)
    a.add_argument("--adam-lr", type=float, default=2e-3)
    a.add_argument("--prompt-share", type=float, default=0.1, help="share of prompt tokens that also count, at weight 0.3")
    a.add_argument("--mix", type=json.loads, default={}, help='overrides of the mixture, as JSON: {"product": 20}')
    a.add_argument("--odd", type=float, default=0.0, help="share of picked words replaced by pieces of words")
    a.add_argument("--threads", type=int, default=2, help="micro-batches at a time, one thread each")
    a.add_argument("--no-compile", action="store_true")
    o = a.parse_args()
    torch.set_num_threads(1)
    o.run.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    model = Sprout(Config(vocab_size=tokenizer.get_vocab_size()), o.seed)
    optimiser = Optimiser(model.named_parameters(), TERNARY, o.muon_lr, o.adam_lr)
    path, step, tokens = o.run / "checkpoint.pt", 0, 0
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        step, tokens = saved["step"], saved["tokens"]
    if not o.no_compile:
        model_file.compile_parts()
    first = step
    marks = tokenizer.encode("<|im_start|>assistant\n").ids, tokenizer.token_to_id("<|im_end|>")
    log = open(o.run / "log.txt", "a")
    sums, counts, since, start_tokens, saved_at = torch.zeros(len(KINDS) + 1), torch.zeros(len(KINDS) + 1), time.time(), tokens, time.time()
    pool = ThreadPoolExecutor(o.threads, initializer=torch.set_num_threads, initargs=(1,))
    while step < o.steps:
        samples = batch(tokenizer, f"{o.seed}-{step}", o.tokens_per_step, o.longest, o.mix, o.odd)
        draw = Draw(step)
        leaves = model.leaves()
        work = [tensors(g, width, draw, o.prompt_share, marks) for g, width in micro_batches(samples, o.micro)]
        total = float(sum(weight.sum() for _, _, _, weight, _ in work))

        def gradients(item):
            x, select, target, weight, kind = item
            logits, balance = model(leaves, x, select)
            ce = F.cross_entropy(logits, target, reduction="none")
            loss = (ce * weight).sum() / total + 0.01 * x.numel() / o.tokens_per_step * balance
            return torch.autograd.grad(loss, list(leaves.values())), ce.detach(), kind, float(balance.detach())

        # The first steps compile; later ones are shared out, so that a busy core holds up one micro-batch only.
        done = list(map(gradients, work) if step < first + 2 else pool.map(gradients, work))
        for i, p in enumerate(model.parameters()):  # straight through: the gradient of the rounded value is the master's
            p.grad = sum(g[0][i].float() for g in done)
        for _, ce, kind, balance in done:
            sums.index_add_(0, kind + 1, ce), counts.index_add_(0, kind + 1, torch.ones_like(ce))
        optimiser.step(schedule(step, o.steps, o.cooldown, o.warmup))
        step += 1
        tokens += sum(len(p) + len(t) for p, t, *_ in samples)
        if step % 20 == 0:
            mean = (sums / counts.clamp(min=1)).tolist()
            speed = (tokens - start_tokens) / (time.time() - since)
            kinds = " ".join(f"{k}={mean[i + 1]:.3f}" for k, i in KIND_IDS.items())
            every = float(sums[1:].sum() / counts[1:].sum())
            print(f"{step} tokens={tokens / 1e6:.2f}M loss={every:.4f} prompt={mean[0]:.3f} {speed:.0f}/s balance={balance:.2f} {kinds}",
                  file=log, flush=True)
            sums.zero_(), counts.zero_()
            since, start_tokens = time.time(), tokens
        if time.time() - saved_at > 150 or step == o.steps:
            save(path, model, optimiser, step, tokens)
            saved_at = time.time()


if __name__ == "__main__":
    main()
