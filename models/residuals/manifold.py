"""Manifold-constrained hyper-connections of Xie et al. 2025 in two readings; their mixing matrices are doubly stochastic.

Shapes: n rows and columns, N matrices.
"""

import itertools
import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.config import Positive
from models.initialise import drawn, starts_as, uniform_bound
from models.precision import full_precision
from models.registry import RESIDUALS
from models.residuals.hyper import Hyper, Streams, StreamsResidual, normed_product
from models.site import Site


def sinkhorn(logits: Tensor, iterations: int, axes: tuple[int, int]) -> Tensor:
    """exp(logits) [.., n, n], `iterations` times divided by its sums over one axis, then over the other; -1: rows sum to 1, -2: columns.

    Source: Sinkhorn and Knopp 1967. The first iteration runs in logarithms, because a whole row or column of exponentials may be 0 in fp32.
    After it, all sums lie between 1/n and n for any logits.
    """
    r = _inner(logits)
    for axis in axes:
        r = r - r.logsumexp(axis - 1, keepdim=True)
    r, others = r.exp(), (iterations - 1) * axes
    if torch.compiler.is_compiling():
        for axis in others:
            r = r / r.sum(axis - 1, keepdim=True)
        return _outer(r, logits.shape)
    return _outer(_Balance.apply(r, others), logits.shape)


class _Balance(torch.autograd.Function):
    """Sinkhorn iterations on [n, n, N]: the layout puts the same entry of all matrices side by side. Sums over a last axis of four numbers
    would be several times slower."""

    @staticmethod
    def forward(ctx: Any, r: Tensor, axes: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(r)
        ctx.axes = axes
        return _balance(r.clone(), axes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (r,) = ctx.saved_tensors
        sums: list[Tensor] = []
        y = _balance(r.clone(), ctx.axes, sums)
        grad = grad.clone(memory_format=torch.contiguous_format)
        for axis, total in zip(reversed(ctx.axes), reversed(sums), strict=True):  # y = x / sum x
            grad.sub_((grad * y).sum(axis - 1, keepdim=True)).div_(total)
            y.mul_(total)
        return grad, None


def _balance(r: Tensor, axes: tuple[int, ...], sums: list[Tensor] | None = None) -> Tensor:
    """Divides r by its sums over each of `axes` in turn, in place. -1: rows, -2: columns. sums: receives the sums."""
    for axis in axes:
        total = r.sum(axis - 1, keepdim=True)
        r.div_(total)
        if sums is not None:
            sums.append(total)
    return r


def _inner(r: Tensor) -> Tensor:
    """[.., n, n] -> [n, n, N], a copy"""
    return r.flatten(0, -3).permute(1, 2, 0).clone(memory_format=torch.contiguous_format) if r.dim() > 2 else r[..., None].clone()


def _outer(r: Tensor, shape: torch.Size) -> Tensor:
    return r.permute(2, 0, 1).reshape(shape)


MAX_PERMUTED = 5


@RESIDUALS.register("manifold_hyper")
class ManifoldHyper(StreamsResidual):
    """x = sum_a p_a X_a; X'_a = sum_b R_ab X_b + q_a y, R doubly stochastic (Xie et al. 2025, mHC): n streams X [B, T, n, D], which start
    as h_0 and end as their sum (assumed).

    p = s(l_p), q = post_scale * s(l_q), R = Sinkhorn(l_R): exp, then columns and rows are scaled in turn to sum 1. The logits l are
    a * (rms(vec X) phi) + b; each of the three has its own scalar a, .01 at the start. Computed in fp32. The residual `manifold_streams`
    applies one map to each stream separately.

    Other forms: `weights: softmax` with dynamic false, temperature .05 and 10 iterations is tokenbender's; `positive: sigmoid` with
    post_scale 1 is the first release of DeepSeek-V4 in Hugging Face's library; `reduce: learned` is DeepSeek-V4's end.

    Args:
        streams: n, 1 to 64; at most 5 with manifold permutations.
        dynamic: whether the logits depend on the states; else they are b alone.
        iterations: number of Sinkhorn iterations; each scales columns and rows to sum 1.
        start: initial values (not printed). xavier: phi by Glorot, b = 0 (Megatron); identity: phi = 0 (mhc-lite's baseline). In p and q,
            b is 1 for stream i - 1 modulo n in sub-layer i and -1 for the others. In R, b is 0 on the diagonal and -8 off it. With weights
            softmax, b is 0 for that stream and -8 for the others in p, and q = 1 / n (tokenbender's).
        manifold: sinkhorn: R = Sinkhorn(l_R); permutations: R is a sum over the n! permutations, weighted by softmax(l_R) (mHC-lite);
            identity: R = I, without l_R (identity hyper-connections, Ge et al. 2026, Chimera).
        stream_scale: whether stream a starts as s_a * h_0 with a learned vector s_a (learned stream scaling, Alimaskina et al. 2026). s_a
            starts as .6 + U(+-sqrt(6 / (n + D))) (authors' code).
        positive: function that makes l_R positive before Sinkhorn: exp or sigmoid.
        post_scale: factor of q, with weights sigmoid.
        last: which sums of R are exactly 1: rows (paper) or columns (Megatron, MaxText).
        temperature: t of R = Sinkhorn(l_R / t), with manifold sinkhorn and positive exp.
        weights: how p and q follow from their logits: sigmoid, or softmax over the streams.
        reduce: the stack's output. sum: the sum of the streams; learned: sum_a s(l_a) X_a with its own logits, b = 0 at the start.
    """

    norm_orders = ("pre",)
    read_if = (
        ("temperature", "manifold", ("sinkhorn",)),
        ("temperature", "positive", ("exp",)),
        ("post_scale", "weights", ("sigmoid",)),
        *((name, "manifold", ("sinkhorn",)) for name in ("iterations", "positive", "last")),
    )
    matrices: Tensor

    def __init__(
        self,
        site: Site,
        *,
        streams: Streams = 4,
        dynamic: bool = True,
        iterations: int = 20,
        start: Literal["xavier", "identity"] = "xavier",
        manifold: Literal["sinkhorn", "permutations", "identity"] = "sinkhorn",
        stream_scale: bool = False,
        positive: Literal["exp", "sigmoid"] = "exp",
        post_scale: Positive = 2.0,
        last: Literal["rows", "columns"] = "rows",
        temperature: Positive = 1.0,
        weights: Literal["sigmoid", "softmax"] = "sigmoid",
        reduce: Literal["sum", "learned"] = "sum",
        rate: Positive = 1.0,
    ) -> None:
        super().__init__(site)
        self.rate = rate
        n, self.place = streams, site.place
        self.n = n
        self.iterations, self.positive, self.post_scale, self.last = iterations, positive, post_scale, last
        self.eps = site.config.norm_eps
        self.temperature, self.softmax = temperature, weights == "softmax"
        self.reduces = reduce == "learned" and not site.place
        scales = stream_scale and not site.place
        self.deviation = drawn(n, site.d_model, bound=uniform_bound("xavier", n, site.d_model)) if scales else None  # s - .6
        if not site.place and not self.reduces:
            return
        self.first = (site.sublayer - 1) % n
        self.permuted = manifold == "permutations"
        if self.permuted:
            orders = itertools.permutations(range(n))
            matrices = torch.tensor([[float(b == c) for b in order for c in range(n)] for order in orders])
            self.register_buffer("matrices", matrices, persistent=False)
        self.width = 0 if manifold == "identity" else math.factorial(n) if self.permuted else n * n
        logits = n if self.reduces else 2 * n + self.width
        bias = torch.zeros(logits)
        if start == "identity" and not self.reduces:
            if self.softmax:
                bias[:n], bias[self.first] = -8.0, 0.0
            else:
                bias[: 2 * n] = -1.0
                bias[[self.first, n + self.first]] = 1.0
            bias[2 * n :] = -8.0
            if self.width:
                bias[2 * n :][[0] if self.permuted else [a * (n + 1) for a in range(n)]] = 0.0
        self.bias = starts_as(bias)
        shape = (n * site.d_model, logits)
        phi = starts_as(torch.zeros(shape)) if start == "identity" else drawn(*shape, bound=uniform_bound("xavier", *shape))
        self.phi = phi if dynamic else None
        self.scale = starts_as(torch.full((1 if self.reduces else 3 if self.width else 2,), 0.01)) if dynamic else None

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        n, manifold = options.get("streams", 4), options.get("manifold", "sinkhorn")
        if manifold == "permutations" and n > MAX_PERMUTED:
            return f"streams is {n}; expected 1 to {MAX_PERMUTED} with manifold {manifold}"
        return super().check(site, **options)

    def start(self, h_0: Tensor) -> Tensor:
        streams = super().start(h_0)
        return streams if self.deviation is None else streams * (0.6 + self.deviation)

    def coefficients(self, s: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        logits, s = self.logits(s)
        p, q, r = logits.split((self.n, self.n, self.width), dim=-1)
        mixing = self.mixing(r) if self.width else None
        if self.softmax:
            return p.softmax(-1), mixing, q.softmax(-1), s
        return torch.sigmoid(p), mixing, self.post_scale * torch.sigmoid(q), s

    def logits(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (l_p, l_q, l_R side by side, or the logits of the learned end: [B, T, ..], static: [..]; s, which later reads use)."""
        if self.phi is None or self.scale is None:
            return self.bias, s
        parts = [len(self.bias)] if self.reduces else [self.n, self.n, self.width][: len(self.scale)]
        scale = torch.cat([a.expand(size) for a, size in zip(self.scale.split(1), parts, strict=True)])
        product, flat = normed_product(s.flatten(-2), self.phi, self.eps)
        return scale * product + self.bias, flat.view(s.shape)

    def mixing(self, logits: Tensor) -> Tensor:
        """Returns R [..., n, n] from its logits."""
        if self.permuted:
            return (logits.softmax(-1) @ self.matrices).unflatten(-1, (self.n, self.n))
        logits = logits.unflatten(-1, (self.n, self.n))
        axes = (-2, -1) if self.last == "rows" else (-1, -2)
        if self.positive == "sigmoid":
            logits = (torch.sigmoid(logits) + 1e-6).log()
        return sinkhorn(logits / self.temperature, self.iterations, axes)

    def end(self, s: Tensor) -> Tensor:
        if not self.reduces:
            return s.sum(-2)
        with full_precision(s):
            s = s.float()
            return (torch.sigmoid(self.logits(s)[0])[..., None] * s).sum(-2)

    def end_weights(self, s: Tensor) -> Tensor:
        return torch.sigmoid(self.logits(s)[0]) if self.reduces else s.new_ones(self.n)


@RESIDUALS.register("manifold_streams")
class ManifoldStreams(Hyper):
    """Hyper-connections with m = s(l_m), R = Sinkhorn(l_R), w = 2 s_w s(h W_w) + b_w (lucidrains' reading of mHC).

    l_m and l_R are s * h W + b, h = g * rms(H_a), for each stream a separately; mHC maps all streams together. Stream a gives row a of R.
    Sinkhorn: exp, then columns and rows are scaled in turn to sum 1. At the start W = 0, s = .01, b_R = I and b_w = 1. b_m is 1 for stream
    i - 1 modulo n in sub-layer i and 0 for the others. R then starts as Sinkhorn(I), with .475 on its diagonal for n = 4.

    Args:
        streams: n, 1 to 64.
        iterations: number of Sinkhorn iterations; each scales columns and rows to sum 1."""

    norm_orders = ("pre",)
    read_if = ()

    def __init__(self, site: Site, *, streams: Streams = 4, iterations: int = 20) -> None:
        super().__init__(site, streams=streams, tanh=False, stream_norm="rms")
        self.iterations = iterations
        if site.place:
            self.scale = starts_as(torch.full((3,), 0.01))  # of m, of R, of w

    def _coefficients(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (coefficients [B, T, n, n + 2]: m_a, R_a1 .. R_an, w_a of stream a; s, which later reads use)."""
        assert self.weight is not None and self.scale is not None and self.gain is not None
        n = self.n
        c, s = normed_product(s, self.gain[:, None] * self.weight, self.eps)
        m, r, w = c.split((1, n, 1), dim=-1)
        m = torch.sigmoid(self.scale[0] * m + self.static[:, :1])
        r = sinkhorn(self.scale[1] * r + self.static[:, 1:-1], self.iterations, (-2, -1))
        w = 2.0 * self.scale[2] * torch.sigmoid(w) + self.static[:, -1:]
        return torch.cat((m, r, w), dim=-1), s
