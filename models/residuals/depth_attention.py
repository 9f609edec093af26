"""Attention residuals of the Kimi team 2026: attention over a growing list of states, which memory holds once.

Shapes: at most K states, J states so far, N positions, width D of a state, H groups of channels.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from models.config import Positive
from models.dropout import Dropout
from models.initialise import starts_as
from models.kept_once import States
from models.precision import full_precision, rms
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class DepthMix(States):
    """x_J = sum_{j<J} a_Jj v_j, a_J = softmax_j(u_J^T rms(v_j)), rms(v) = v / sqrt(mean v^2 + eps), in fp32. x_J, u_J and v_j are split
    into H groups of channels. Each group has its own a_J; the mean is over all channels of v.

    With train.recompute, a layer that runs again writes the same values to the same places."""

    v: Tensor  # [K, N, D]
    scale: Tensor  # [K, N]: 1 / sqrt(mean v_j^2 + eps)

    def __init__(self, number: int, eps: float, heads: int = 1) -> None:
        """number: K. heads: H"""
        self.number, self.eps, self.heads = number, eps, heads

    def place(self, y: Tensor, k: int) -> Tensor:
        rows = y.detach().flatten(0, -2)
        if k == 0:
            kind = torch.promote_types(y.dtype, torch.float32)
            self.v = rows.new_empty((self.number, *rows.shape), dtype=kind)
            self.scale = rows.new_empty((self.number, len(rows)), dtype=kind)
        # `data` has its own version counter: later writes to other places must not invalidate this place
        placed = self.v.data[k].copy_(rows)
        torch.rsqrt(placed.square().mean(-1).add_(self.eps), out=self.scale[k])
        return placed.view(y.shape)

    def mix(self, row: Tensor, l: int) -> tuple[Tensor, ...]:
        """Returns x_J [N, D], then scores and weights a_J [J, N, H]. row: u_J [D]; l: J."""
        scores = _dots(self.v[:l], row, self.heads).mul_(self.scale[:l, :, None])
        shares = scores.softmax(0)
        return _sum(shares, self.v[:l]), scores, shares

    def begin(self, top: int) -> "DepthGradients":
        return DepthGradients(self, top)


# These loops run over the states: a batched product would copy the states, and a product with one vector would be half as fast.


def _dots(v: Tensor, u: Tensor, heads: int) -> Tensor:
    """v [J, N, D], u [N, D] or [D] -> u^T v_j per group [J, N, H]"""
    found, product = v.new_empty((*v.shape[:2], heads)), torch.empty_like(v[0])
    for each, out in zip(v, found, strict=True):
        torch.sum(_groups(torch.mul(each, u, out=product), heads), -1, out=out)
    return found


def _sum(weights: Tensor, v: Tensor) -> Tensor:
    """sum_j w_j v_j per group: [J, N, H], [J, N, D] -> [N, D]"""
    v = _groups(v, weights.shape[-1])
    total = weights[0][..., None] * v[0]
    for w, each in zip(weights[1:], v[1:], strict=True):
        total.addcmul_(w[..., None], each)
    return total.flatten(-2)


def _groups(v: Tensor, heads: int) -> Tensor:
    """[.., D] -> [.., H, D / H]"""
    return v.unflatten(-1, (heads, -1))


class DepthGradients:
    """Gradients of one backward pass. dx [K, N, D]: index J - 1 holds the gradient of x_J. shares [K, K, N, H]: index [J - 1, j] holds
    a_Jj. scores [K, K, N, H]: index [J - 1, j] holds the gradient of u_J^T rms(v_j), divided by sqrt(mean v_j^2 + eps)."""

    def __init__(self, states: DepthMix, top: int) -> None:
        self.states, self.top, self.heads, v = states, top, states.heads, states.v
        self.dx, self.u = torch.empty_like(v), v.new_zeros((len(v), v.shape[-1]))
        self.shares, self.scores = (v.new_zeros((len(v), *v.shape[:2], self.heads)) for _ in range(2))
        self.norms = v.new_zeros((*v.shape[:2], self.heads))  # [K, N, H]: index j holds the sum over J of score times its gradient

    def arrived(self, l: int, dx: Tensor | None, row: Tensor, scores: Tensor, shares: Tensor) -> Tensor | None:
        if dx is None:
            self.dx[l - 1].zero_()
            return None
        dx, v = self.dx[l - 1].copy_(dx.flatten(0, -2)), self.states.v[:l]
        d_scores = _dots(v, dx, self.heads).mul_(shares)
        d_scores.addcmul_(shares, d_scores.sum(0), value=-1.0)
        self.norms[:l].addcmul_(d_scores, scores)
        self.u[l - 1], self.shares[l - 1, :l] = row, shares
        d_scores = torch.mul(d_scores, self.states.scale[:l, :, None], out=self.scores[l - 1, :l]).flatten(0, 1)
        groups = _groups(v.flatten(0, 1), self.heads)
        return torch.cat([torch.mm(d_scores[:, h].view(1, -1), groups[:, h])[0] for h in range(self.heads)])

    def of(self, k: int, l: int) -> Tensor:
        v, above = self.states.v[k], slice(l - 1, self.top)
        d_v = _sum(self.shares[above, k], self.dx[above])
        groups, u = _groups(d_v, self.heads), _groups(self.u[above], self.heads)
        for h in range(self.heads):
            groups[:, h].addmm_(self.scores[above, k, :, h].t(), u[:, h])
        return d_v.addcmul_(v, (self.norms[k].sum(-1) * self.states.scale[k].square())[:, None], value=-1.0 / v.shape[-1])


Sources = tuple[Tensor, ...]


class State(NamedTuple):
    """sources: the finished sources. running: the block's running sum, or the stream (delta). kept: storage of the sources, if memory holds
    each source once. above: result of its last read."""

    sources: Sources
    running: Tensor | None = None
    kept: DepthMix | None = None
    above: Tensor | None = None

    def put(self, y: Tensor) -> "State":
        """Returns the state with y as its newest source."""
        source = y if self.kept is None else self.kept.put(y, len(self.sources))
        return self._replace(sources=(*self.sources, source))

    def read(self, row: Tensor) -> tuple[Tensor, "State"]:
        """Returns (x_J, the next state). row: u_J [D]. Only for states with `kept`."""
        assert self.kept is not None
        number = len(self.sources)
        x, above = self.kept.read(row, number, self.above, *self.sources[-1 if number > 2 else 0 :])
        return x, self._replace(above=above)


@RESIDUALS.register("depth_attention")
class DepthAttention(Residual):
    """x_i = sum_{j<i} a_ij v_j, a_i = softmax_j(w_i^T (g_i * rms(v_j))), v_0 = h_0, v_j = y_j (Kimi team 2026, AttnRes, Eq. 2-4).

    The sum replaces the residual connection. The stack's output is one more sum, over all sources (assumed). At the start w = 0, which
    gives the uniform mean. Computed in fp32. `sources: states` with `final: top` is the form of wdlctc/open-attention-residuals.

    Args:
        blocks: N > 0: the M sub-layers form at most N blocks of ceil(M / N). Sources are h_0, the sum of y in each finished block, and the
            running sum of the current block, with the precision of y. 0: the output of every sub-layer is a source.
        query: learned: the query is w; input: w + W rms(newest source), W = 0 at the start (assumed).
        weights: how a_i follows from the scores: softmax, or sigmoid; scalars: a_i is the softmax of learned numbers, without scores.
        key_norm: whether keys are g * rms(v_j); else g * v_j.
        sources: what v_j is. outputs: the outputs y_j of the sub-layers; states: the running sums x + y.
        final: the stack's output. mix: one more sum over all sources; top: the last source (only with sources states)."""

    norm_orders = ("pre",)
    streams = True
    heads = 1
    read_if = (
        ("final", "sources", ("states",)),  # the last sub-layer's output alone cannot be the stack's output
        ("query", "weights", ("softmax", "sigmoid")),
        ("key_norm", "weights", ("softmax", "sigmoid")),
    )

    def __init__(
        self,
        site: Site,
        *,
        blocks: int = 0,
        query: Literal["learned", "input"] = "learned",
        weights: Literal["softmax", "sigmoid", "scalars"] = "softmax",
        key_norm: bool = True,
        sources: Literal["outputs", "states"] = "outputs",
        final: Literal["mix", "top"] = "mix",
        rate: Positive = 1.0,
    ) -> None:
        super().__init__(site)
        self.rate = rate
        d, m = site.d_model, site.sublayers
        size = -(-m // blocks) if blocks else 1
        below = site.sublayer - 1 if site.place else m
        self.ends_block = below % size == size - 1 or below == m - 1
        self.form, self.key_norm, self.states, self.eps = weights, key_norm, sources == "states", site.config.norm_eps
        self.number = 1 + (below // size if site.place else -(-m // size)) + int(below % size > 0 and site.place > 0)
        self.mixes = self.number > 1 and (site.place > 0 or (final == "mix" and site.output))
        content = self.mixes and weights != "scalars"
        self.keeps = size == 1 and weights == "softmax" and query == "learned" and key_norm
        self.number_kept = m + 1
        self.query = starts_as(torch.zeros(d)) if content else None
        self.gain = starts_as(torch.ones(d)) if content else None
        self.map = starts_as(torch.zeros(d, d)) if content and query == "input" else None
        self.logits = starts_as(torch.zeros(self.number)) if self.mixes and not content else None

    def start(self, h_0: Tensor) -> State:
        """Returns the state with source h_0. torch.compile gets the plain equation, without `kept`."""
        keeps = self.keeps and not torch.compiler.is_compiling()
        return State((), kept=DepthMix(self.number_kept, self.eps, self.heads) if keeps else None).put(h_0)

    def read(self, s: State) -> tuple[Tensor, State]:
        if s.kept is None or not self.mixes:
            return self.mix(s.sources if s.running is None else (*s.sources, s.running)), s
        assert self.query is not None and self.gain is not None
        return s.read(self.query * self.gain)

    def mix(self, sources: Sources) -> Tensor:
        """J sources [B, T, D] -> [B, T, D]"""
        if not self.mixes:
            return sources[-1]
        with full_precision(sources[0]):
            v = torch.stack(sources, dim=-2).float()
            return (self.shares(v)[..., None, :] @ v).squeeze(-2)

    def shares(self, v: Tensor) -> Tensor:
        """Returns a_i: [B, T, J, D] -> [B, T, J]."""
        if self.query is None or self.gain is None:
            assert self.logits is not None
            return self.logits.softmax(-1)[None].expand(v.shape[:-1])
        q = self.query if self.map is None else self.query + rms(v[..., -1, :], self.eps) @ self.map.T
        keys = rms(v, self.eps) if self.key_norm else v
        logits = (keys @ (q * self.gain)[..., None]).squeeze(-1)
        return logits.sigmoid() if self.form == "sigmoid" else logits.softmax(-1)

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> State:
        base = s.sources[-1] if s.running is None and self.states else s.running
        running = drop(y) if base is None else drop.add(base, y)
        if not self.ends_block:
            return s._replace(running=running)
        return s.put(running)._replace(running=None)

    def end(self, s: State) -> Tensor:
        return self.read(s)[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns a. The sources are h_0 and the outputs of sub-layers or of blocks."""
        if not self.mixes:
            return {}
        sources = s.sources if s.running is None else (*s.sources, s.running)
        return {"sources": self.shares(torch.stack(sources, dim=-2).float())}
