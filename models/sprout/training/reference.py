"""A plain forward pass over an exported checkpoint, written apart from the training model, to check both and to evaluate with.

Reads any Maple checkpoint in Hugging Face form. Batches are padded on the left; keys and values are cached.

    python reference.py FOLDER     compares with FOLDER/golden.json, logits and greedy tokens
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

LIMIT = 7.0


class Reference:
    """``dtype`` is that of all arithmetic."""

    def __init__(self, folder, dtype=torch.float32):
        folder = Path(folder)
        self.config = c = json.loads((folder / "config.json").read_text())
        index = folder / "model.safetensors.index.json"
        files = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
        self.w = {k: v.to(dtype) for f in files for k, v in load_file(folder / f).items()}
        self.dtype = dtype
        self.head = self.w["model.word_embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]

    def norm(self, x, weight):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * weight

    def rotate(self, x, positions):
        """Half-split rotary of the leading dims of ``x`` [B, heads, T, D] at ``positions`` [T]."""
        c = self.config
        n = int(c["head_dim"] * c["partial_rotary_factor"])
        half = n // 2
        angle = positions[:, None].double() * c["rope_theta"] ** (-torch.arange(half).double() * 2 / n)
        cos, sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        a, b = x[..., :half], x[..., half:n]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., n:]], -1)

    def experts(self, x, l: int):
        """The mixture of experts on rows ``x`` [N, H]; of equal router values the lower expert is taken."""
        c, prefix = self.config, f"model.layers.{l}.mlp."
        p = (x @ self.w[prefix + "gate.weight"].T).softmax(-1)
        chosen = p.sort(dim=-1, descending=True, stable=True).indices[:, : c["num_experts_per_tok"]]
        weight = p.gather(1, chosen)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20)
        out = torch.zeros_like(x)
        for e in range(c["num_experts"]):
            row, k = (chosen == e).nonzero(as_tuple=True)
            if len(row):
                r, name = x[row], f"{prefix}experts.{e}."
                gate = (r @ self.w[name + "gate_proj.weight"].T).clamp(max=LIMIT)
                up = (r @ self.w[name + "up_proj.weight"].T).clamp(-LIMIT, LIMIT)
                y = (gate * torch.sigmoid(gate) * up) @ self.w[name + "down_proj.weight"].T
                out.index_add_(0, row, y * weight[row, k, None])
        return out

    def forward(self, tokens, cache=None, pad=None, last=False):
        """Logits [B, T, V] (T = 1 if ``last``) of ``tokens`` [B, T]; ``cache`` is a list that is filled; ``pad`` [B]
        counts padding tokens on the left."""
        c, w = self.config, self.w
        b, t = tokens.shape
        heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        h = w["model.word_embeddings.weight"][tokens]
        past = cache[0][0].shape[2] if cache else 0
        query = torch.arange(past, past + t)
        key = torch.arange(past + t)
        ago = query[:, None] - key[None]
        real = key[None] >= (pad[:, None] if pad is not None else 0)
        for l, kind in enumerate(c["layer_types"]):
            name = f"model.layers.{l}."
            attn = name + "self_attn."
            x = self.norm(h, w[name + "input_layernorm.weight"])
            q, k, v = ((x @ w[f"{attn}{s}_proj.weight"].T).view(b, t, -1, d).transpose(1, 2) for s in "qkv")
            q, k = self.norm(q, w[attn + "q_norm.weight"]), self.norm(k, w[attn + "k_norm.weight"])
            keep = ago >= 0
            if kind == "sliding_attention":
                q, k = self.rotate(q, query), self.rotate(k, query)
                keep = keep & (ago < c["sliding_window"])
            if cache is not None:
                if len(cache) > l:
                    k, v = torch.cat([cache[l][0], k], 2), torch.cat([cache[l][1], v], 2)
                    cache[l] = (k, v)
                else:
                    cache.append((k, v))
            k, v = k.repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1)
            scores = q @ k.transpose(-1, -2) / d**0.5
            visible = keep[None] & real[:, None] | (ago == 0)[None]  # a padding query sees itself, so that nothing is NaN
            a = scores.masked_fill(~visible[:, None], float("-inf")).softmax(-1) @ v
            h = h + a.transpose(1, 2).reshape(b, t, heads * d) @ w[attn + "o_proj.weight"].T
            x = self.norm(h, w[name + "post_attention_layernorm.weight"])
            h = h + self.experts(x.view(b * t, -1), l).view(b, t, -1)
        h = h[:, -1:] if last else h
        return self.norm(h, w["model.norm.weight"]) @ self.head.T

    @torch.no_grad()
    def generate(self, prompts, limit: int, stop, keep_logits: bool = False):
        """Greedy continuations of id lists, one batch. With ``keep_logits`` also the logits before each token."""
        width = max(map(len, prompts))
        pad = torch.tensor([width - len(p) for p in prompts])
        tokens = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts])
        out, kept, cache = [[] for _ in prompts], [[] for _ in prompts], []
        done = [False] * len(prompts)
        for _ in range(limit):
            logits = self.forward(tokens, cache, pad, last=True)[:, -1]
            tokens = logits.argmax(-1)[:, None]
            for i, token in enumerate(tokens[:, 0].tolist()):
                if not done[i]:
                    out[i].append(token)
                    if keep_logits:
                        kept[i].append(logits[i])
                    done[i] = token in stop
            if all(done):
                break
        return (out, kept) if keep_logits else out


@torch.no_grad()
def compare(folder, dtype) -> float:
    """The largest difference from the golden logits, relative to the row's largest; also checks the greedy tokens."""
    folder = Path(folder)
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    model, worst = Reference(folder, dtype), 0.0
    for case in golden["cases"]:
        got = model.forward(torch.tensor([case["prompt"]]))[0, case["positions"]]
        greedy, logits = model.generate([case["prompt"]], len(case["greedy"]), (), keep_logits=True)
        for a, b in ((got, tensors[case["logits"]]), (torch.stack(logits[0]), tensors[case["greedy_logits"]])):
            worst = max(worst, float(((a - b).abs().amax(-1) / b.abs().amax(-1)).max()))
        if greedy[0] != case["greedy"]:
            raise SystemExit(f"{folder}: greedy tokens differ: {greedy[0]} instead of {case['greedy']}")
    return worst


if __name__ == "__main__":
    for f in sys.argv[1:]:
        print(f, *(f"{str(t).split('.')[1]}: {compare(f, t):.1e}" for t in (torch.float32, torch.float64)))
