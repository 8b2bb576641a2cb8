"""The ternary rule of the checkpoint, with a straight-through gradient."""

import torch


def ternary_values(w):
    """``w`` with every row (last dim) replaced by {-s, 0, +s}: keep where ``|w| > 0.7 * mean|w|``, ``s`` the kept mean.

    ``s`` is rounded to bf16, so the result is exact in bf16. fp32 in, fp32 out.
    """
    w = w.detach().float()
    size = w.abs()
    keep = size > 0.7 * size.mean(-1, keepdim=True)
    s = (size * keep).sum(-1, keepdim=True) / keep.sum(-1, keepdim=True).clamp(min=1)
    return w.sign() * keep * s.bfloat16().float()


class _StraightThrough(torch.autograd.Function):
    """``value``, with the gradient handed to ``w`` unchanged."""

    @staticmethod
    def forward(ctx, w, value):
        return value

    @staticmethod
    def backward(ctx, g):
        return g, None


def ternary(w):
    """``ternary_values`` with the gradient passed straight through to ``w``."""
    return _StraightThrough.apply(w, ternary_values(w))


def round_bf16(w):
    """``w`` at bf16 precision, held as fp32, with the gradient passed straight through."""
    return _StraightThrough.apply(w, w.detach().bfloat16().float())


def is_ternary(rows) -> bool:
    """The exact test a loader makes: ``sign(w) * max|row| == w`` in the stored type, for every row."""
    return bool((rows.sign() * rows.abs().amax(-1, keepdim=True) == rows).all())
