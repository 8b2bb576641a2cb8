"""The model that is trained: Maple's forward pass with ternary projections, laid out so that a CPU trains it quickly.

All layers' weights of one sort are stacked in one tensor, the experts' too. ``Sprout.quantised`` turns the master weights
into the values the exported checkpoint will hold (ternary rows, bf16 everywhere); gradients pass straight through.
"""

from dataclasses import asdict, dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

from quantise import round_bf16, ternary

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass
class Config:
    """Sizes, with the meaning of the same keys in config.json."""

    hidden_size: int = 192
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 32
    num_experts: int = 8
    num_experts_per_tok: int = 2
    moe_intermediate_size: int = 64
    vocab_size: int = 1536
    sliding_window: int = 128
    layer_types: list = field(default_factory=lambda: [SLIDING, FULL] * 2)
    rope_theta: float = 10000.0
    partial_rotary_factor: float = 0.5
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048

    @property
    def rotated(self) -> int:
        """Leading dims of a head that rotary turns in sliding layers."""
        return int(self.head_dim * self.partial_rotary_factor)


# Up to this many tokens, attention is quickest with the score matrix written out (measured).
SHORT = 128

# Weights with a leading layer dim, and those of them that are ternary in the checkpoint.
STACKED = ("norm1", "norm2", "q_norm", "k_norm", "wq", "wk", "wv", "wo", "router", "gate", "up", "down")
TERNARY = ("wq", "wk", "wv", "wo", "gate", "up", "down")


class Sprout(nn.Module):
    """Parameters, stacked: ``L`` layers, ``E`` experts, ``H`` hidden, ``D`` head dim, ``F`` expert width."""

    def __init__(self, config: Config, seed: int = 0):
        super().__init__()
        self.config = c = config
        rng = torch.Generator().manual_seed(seed)
        layers, h, d = len(c.layer_types), c.hidden_size, c.head_dim
        heads, kv, e, f = c.num_attention_heads, c.num_key_value_heads, c.num_experts, c.moe_intermediate_size

        def normal(*shape, std):
            return nn.Parameter(torch.randn(shape, generator=rng) * std)

        self.embedding = normal(c.vocab_size, h, std=0.1)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(layers, h)), nn.Parameter(torch.ones(layers, h))
        self.q_norm, self.k_norm = nn.Parameter(torch.full((layers, d), 1.3)), nn.Parameter(torch.full((layers, d), 1.3))
        self.final_norm = nn.Parameter(torch.ones(h))
        self.wq = normal(layers, heads * d, h, std=h**-0.5)
        self.wk = normal(layers, kv * d, h, std=h**-0.5)
        self.wv = normal(layers, kv * d, h, std=h**-0.5)
        self.wo = normal(layers, h, heads * d, std=(heads * d) ** -0.5 * 0.5)
        self.router = normal(layers, e, h, std=h**-0.5)
        self.gate = normal(layers, e, f, h, std=h**-0.5)
        self.up = normal(layers, e, f, h, std=h**-0.5)
        self.down = normal(layers, e, h, f, std=f**-0.5 * 0.5)
        self._masks = {}
        n = c.rotated
        self._swap = torch.zeros(d, d)
        self._swap[torch.arange(n), (torch.arange(n) + n // 2) % n] = 1.0
        self._rotary = {}

    def quantised(self) -> dict:
        """The values the checkpoint holds, as fp32 tensors attached to the masters by straight-through gradients."""
        return {n: ternary(p) if n in TERNARY else round_bf16(p) for n, p in self.named_parameters()}

    def _mask(self, t: int, kind: str):
        if (t, kind) not in self._masks:
            i = torch.arange(t)
            ago = i[:, None] - i[None, :]
            keep = (ago >= 0) & (ago < (self.config.sliding_window if kind == SLIDING else t))
            self._masks[t, kind] = torch.zeros(t, t).masked_fill_(~keep, float("-inf"))
        return self._masks[t, kind]

    def _angles(self, b: int, t: int):
        """cos and sin [B * T, 1, D] for every row; sin carries the sign of the half it multiplies, and both leave the
        dims that do not rotate as they are."""
        if t not in self._rotary:
            n, d = self.config.rotated, self.config.head_dim
            freq = self.config.rope_theta ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
            angle = torch.arange(t, dtype=torch.float64)[:, None] * freq[None]
            cos, sin = angle.cos().float(), angle.sin().float()
            self._rotary[t] = (torch.cat([cos, cos, torch.ones(t, d - n)], -1)[:, None],
                               torch.cat([-sin, sin, torch.zeros(t, d - n)], -1)[:, None])
        return tuple(z.repeat(b, 1, 1) for z in self._rotary[t])

    def leaves(self) -> dict:
        """``quantised()`` cut off from the masters, to collect gradients in; the ternary ones in bf16, as they multiply."""
        w = {n: v.detach() for n, v in self.quantised().items()}
        return {n: (v.bfloat16() if n in TERNARY else v).requires_grad_() for n, v in w.items()}

    def forward(self, w: dict, tokens, select):
        """Logits (fp32) at the flat positions ``select`` of ``tokens`` [B, T], and the load-balancing loss.

        ``w`` is ``leaves()``; matrix products run in the type of its ternary tensors.
        """
        c = self.config
        b, t = tokens.shape
        dtype = w["wq"].dtype
        h = F.embedding(tokens.view(-1), w["embedding"])
        balance = 0.0
        angles = self._angles(b, t)
        by_layer = [dict(zip(STACKED, z)) for z in zip(*(w[n].unbind(0) for n in STACKED))]
        for kind, y in zip(c.layer_types, by_layer):
            x = rmsnorm(h, y["norm1"], c.rms_norm_eps, dtype)
            q, k, v = (F.linear(x, y[n]).view(b * t, -1, c.head_dim) for n in ("wq", "wk", "wv"))
            q, k = rmsnorm(q, y["q_norm"], c.rms_norm_eps, dtype), rmsnorm(k, y["k_norm"], c.rms_norm_eps, dtype)
            if kind == SLIDING:
                q, k = self._rotate(q, angles), self._rotate(k, angles)
            h = h + F.linear(self._attend(q, k, v, kind, b, t), y["wo"])
            x = rmsnorm(h, y["norm2"], c.rms_norm_eps, dtype)
            p = F.linear(x.float(), y["router"]).softmax(-1)
            out, load = experts(x, p, y["gate"], y["up"], y["down"], c.num_experts_per_tok)
            balance = balance + load
            h = h + out
        x = rmsnorm(h.index_select(0, select), w["final_norm"], c.rms_norm_eps, dtype)
        return F.linear(x, w["embedding"].to(dtype)).float(), balance / len(c.layer_types)

    def _rotate(self, x, angles):
        """Half-split rotary of rows [N, heads, D]; the halves change places by a product, the quickest way on a CPU."""
        return turn(x, torch.matmul(x, self._swap.to(x.dtype)), *angles)

    def _attend(self, q, k, v, kind, b, t):
        """Attention of rows [B * T, heads, D]; the result is [B * T, heads * D]."""
        c = self.config
        heads, kv, d = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        q, k, v = (z.view(b, t, -1, d).transpose(1, 2) for z in (q, k, v))
        k, v = (z.repeat_interleave(heads // kv, 1) for z in (k, v))
        masked = kind == SLIDING and t > c.sliding_window
        if t <= SHORT:
            scores = torch.bmm(q.reshape(-1, t, d), k.view(-1, t, d).transpose(1, 2))
            a = torch.bmm(probabilities(scores, self._mask(t, kind), d**-0.5), v.view(-1, t, d)).view(b, heads, t, d)
        else:
            a = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=not masked,
                                               attn_mask=self._mask(t, kind) if masked else None).to(v.dtype)
        return a.transpose(1, 2).reshape(b * t, heads * d)

    def config_dict(self) -> dict:
        return asdict(self.config)


def rmsnorm(x, weight, eps: float, dtype):
    """``weight * x / sqrt(mean(x^2) + eps)`` over the last dim, in fp32, then cast."""
    x = x.float()
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight).to(dtype)


def turn(x, swapped, cos, sin):
    return (x.float() * cos + swapped.float() * sin).to(x.dtype)


def probabilities(scores, mask, scale: float):
    """Softmax of scores [N, T, T] under an additive mask [T, T]."""
    return (scores.float() * scale + mask).softmax(-1).to(scores.dtype)


def swiglu(gate, up):
    """Maple's clamped SwiGLU."""
    return F.silu(gate.clamp(max=7.0)) * up.clamp(-7.0, 7.0)


class _Gather(torch.autograd.Function):
    """Rows of ``x`` by ``index``; index ``len(x)`` is a row of zeros. ``inverse`` [len(x), uses] says where each row went.

    Scattering is slow on a CPU; every row is used a fixed number of times, so the gradient can be gathered instead.
    """

    @staticmethod
    def forward(ctx, x, index, inverse):
        ctx.save_for_backward(inverse)
        return _with_zero_row(x).index_select(0, index)

    @staticmethod
    def backward(ctx, g):
        (inverse,) = ctx.saved_tensors
        n, uses = inverse.shape
        rows = _with_zero_row(g).index_select(0, inverse.view(-1))
        return (rows.view(n, uses, -1).sum(1) if uses > 1 else rows), None, None


def _with_zero_row(x):
    return torch.cat([x, x.new_zeros(1, x.shape[1])])


def experts(x, p, gate, up, down, k: int):
    """Mixture of experts on rows ``x`` [N, H] with router probabilities ``p`` [N, E]; also the load-balancing loss.

    Rows are grouped by expert, padded to the busiest one, so that three batched products do all the work.
    """
    n, e = p.shape
    top, chosen = p.topk(k, -1)
    weight = top / (top.sum(-1, keepdim=True) + 1e-20)
    flat = chosen.view(-1)
    counts = torch.bincount(flat, minlength=e)
    room = -(-int(counts.max()) // 64) * 64
    order = flat.argsort(stable=True)
    start = counts.cumsum(0) - counts
    sorted_expert = flat[order]
    place = sorted_expert * room + torch.arange(n * k) - start[sorted_expert]
    source = torch.full((e * room,), n)
    source[place] = order // k
    slot = torch.empty(n * k, dtype=torch.long)
    slot[order] = place
    pair = torch.full((e * room, 1), n * k)
    pair[place, 0] = order
    rows = _Gather.apply(x, source, slot.view(n, k)).view(e, room, -1)
    a = torch.bmm(rows, gate.transpose(1, 2))
    b = torch.bmm(rows, up.transpose(1, 2))
    y = torch.bmm(swiglu(a, b), down.transpose(1, 2)).view(e * room, -1)
    y = _Gather.apply(y, slot, pair).view(n, k, -1)
    out = torch.bmm(weight.to(y.dtype).unsqueeze(1), y).squeeze(1)
    load = e * (counts.float() / (n * k) * p.mean(0)).sum()
    return out, load


def compile_parts():
    """Fuses the element-wise parts, about a quarter of the time of a step."""
    global rmsnorm, turn, probabilities, swiglu
    torch._dynamo.config.recompile_limit = 32
    rmsnorm, turn, probabilities, swiglu = (torch.compile(f, dynamic=True) for f in (rmsnorm, turn, probabilities, swiglu))
