"""Muon for the matrices, Adam for embedding, router and norms."""

import torch


def orthogonalise(g, steps: int = 5):
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrix, for a stack of matrices [N, r, c], in bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-12)).bfloat16()
    for _ in range(steps):
        s = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * s + c * torch.bmm(s, s), x)
    return (x.transpose(1, 2) if tall else x).float()


class Optimiser:
    """One step over named parameters; those in ``matrices`` (stacks of matrices in the last two dims) go by Muon."""

    def __init__(self, named, matrices, muon_lr=0.015, adam_lr=2e-3, decay=0.01):
        self.named, self.matrices = dict(named), set(matrices)
        self.muon_lr, self.adam_lr, self.decay = muon_lr, adam_lr, decay
        self.state = {n: {"m": torch.zeros_like(p), **({} if n in self.matrices else {"v": torch.zeros_like(p)})}
                      for n, p in self.named.items()}
        self.count = 0

    @torch.no_grad()
    def step(self, scale: float, clip: float = 1.0):
        """Updates with both learning rates times ``scale``; Adam's gradients are clipped to norm ``clip``."""
        self.count += 1
        small = [p.grad for n, p in self.named.items() if n not in self.matrices]
        norm = torch.stack([g.norm() for g in small]).norm()
        clipped = min(1.0, clip / (float(norm) + 1e-9))
        for n, p in self.named.items():
            s = self.state[n]
            if n in self.matrices:
                s["m"].mul_(0.95).add_(p.grad)
                g = p.grad + 0.95 * s["m"]
                r, c = p.shape[-2:]
                update = orthogonalise(g.reshape(-1, r, c)).view_as(p) * max(1.0, r / c) ** 0.5
                p.mul_(1 - self.muon_lr * scale * self.decay).sub_(update, alpha=self.muon_lr * scale)
            else:
                g = p.grad * clipped
                s["m"].lerp_(g, 0.1)
                s["v"].lerp_(g.square(), 0.02)
                m, v = s["m"] / (1 - 0.9**self.count), s["v"] / (1 - 0.98**self.count)
                p.sub_(m / (v.sqrt() + 1e-8), alpha=self.adam_lr * scale)
            p.grad = None
        return float(norm)

    def state_dict(self):
        return {"state": self.state, "count": self.count}

    def load_state_dict(self, d):
        self.state, self.count = d["state"], d["count"]
