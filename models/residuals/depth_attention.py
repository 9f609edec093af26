"""Attention residuals of the Kimi team 2026."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from models.depth_mix import DepthMix
from models.dropout import Dropout
from models.full_precision import full_precision, rms
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site

Sources = tuple[Tensor, ...]


class State(NamedTuple):
    """Finished sources, the block's running sum; where the sources are kept once (models.depth_mix), what keeps them, and its last read."""

    sources: Sources
    running: Tensor | None = None
    kept: DepthMix | None = None
    above: Tensor | None = None


@RESIDUALS.register("depth_attention")
class DepthAttention(Residual):
    """x_i = sum_{j<i} a_ij v_j, a_i = softmax_j(w_i^T (g_i * rms(v_j))), v_0 = h_0, v_j = y_j (Kimi team 2026, AttnRes, Eq. 2-4).

    There is no other residual. The stack's output is one more such sum, over all sources (assumed). w = 0 at the start: the uniform mean.
    In fp32. `sources: states` with `final: top` is the form of wdlctc/open-attention-residuals.

    Args:
        blocks: N > 0: sources are h_0, the sums of y in each of N blocks of ceil(M / N) sub-layers, and the running sum of the own block;
            0: every sub-layer is a source of its own.
        query: learned: the query is w; input: w + W rms(newest source), W = 0 at the start (assumed).
        weights: a_i of the scores: softmax, or sigmoid in its place; scalars: a_i is the softmax of learned numbers, without content.
        key_norm: whether keys are g * rms(v_j); else g * v_j.
        sources: what v_j is. outputs: the outputs y_j of the sub-layers; states: the running sums x + y.
        final: the stack's output. mix: one more sum over all sources; top: the last source (with sources states alone).
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("pre",)
    streams = True

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
        rate: float = 1.0,
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
        self.query = nn.Parameter(torch.zeros(d)) if content else None
        self.gain = nn.Parameter(torch.zeros(d)) if content else None
        self.map = nn.Parameter(torch.zeros(d, d)) if content and query == "input" else None
        self.logits = nn.Parameter(torch.zeros(self.number)) if self.mixes and not content else None

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if options.get("final", "mix") == "top" and options.get("sources", "outputs") == "outputs":
            return "found final top with sources outputs, of which the last is no output of a stack; expected sources states"
        scalars = options.get("weights", "softmax") == "scalars"
        if scalars and (options.get("query", "learned") != "learned" or not options.get("key_norm", True)):
            return "found weights scalars with options of queries or keys, which they do not read; expected softmax or sigmoid"
        return super().check(site, **options)

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        shape = getattr(self, name).shape
        return torch.ones(shape) if name == "gain" else torch.zeros(shape)

    def start(self, h_0: Tensor) -> State:
        """A compiler is given the equation itself."""
        if not self.keeps or torch.compiler.is_compiling():
            return State((h_0,))
        kept = DepthMix(self.number_kept, self.eps)
        return State((kept.put(h_0, 0),), kept=kept)

    def read(self, s: State) -> tuple[Tensor, State]:
        if s.kept is None or not self.mixes:
            return self.mix(s.sources if s.running is None else (*s.sources, s.running)), s
        assert self.query is not None and self.gain is not None
        number = len(s.sources)
        x, above = s.kept.read(self.query * self.gain, number, s.above, *s.sources[-1 if number > 2 else 0 :])
        return x, s._replace(above=above)

    def mix(self, sources: Sources) -> Tensor:
        """J sources [B, T, D] -> [B, T, D]"""
        if not self.mixes:
            return sources[-1]
        with full_precision(sources[0]):
            v = torch.stack(sources, dim=-2).float()
            return (self.shares(v)[..., None, :] @ v).squeeze(-2)

    def shares(self, v: Tensor) -> Tensor:
        """a_i: [B, T, J, D] -> [B, T, J]; [1, J] for scalars."""
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
        source = running if s.kept is None else s.kept.put(running, len(s.sources))
        return s._replace(sources=(*s.sources, source), running=None)

    def end(self, s: State) -> Tensor:
        return self.read(s)[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """a; a source is h_0 or what a sub-layer, or a block of them, gave."""
        if not self.mixes:
            return {}
        sources = s.sources if s.running is None else (*s.sources, s.running)
        return {"sources": self.shares(torch.stack(sources, dim=-2).float())}
