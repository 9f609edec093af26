"""Attention over depth: in groups of channels in place of the residual sum, and gated beside it."""

from typing import Annotated, Any

import torch
from torch import Tensor

from models.config import Bounds, Positive
from models.dropout import Dropout
from models.initialise import starts_as
from models.precision import full_precision, rms
from models.registry import RESIDUALS
from models.residuals.depth_attention import DepthAttention, DepthMix, Sources, State
from models.seams import Residual
from models.site import Site


def shares_of(v: Tensor, u: Tensor, heads: int, eps: float) -> Tensor:
    """softmax_j(u_h . rms(v_j)_h) for each group h of channels: v [.., J, D], u [D] -> [.., H, J]. The rms is over all channels."""
    products = (rms(v, eps) * u).unflatten(-1, (heads, -1)).sum(-1)
    return products.mT.softmax(-1)


def mixture(shares: Tensor, v: Tensor) -> Tensor:
    """sum_j a_hj v_j in each group h of channels: [.., H, J], [.., J, D] -> [.., D]"""
    groups = v.unflatten(-1, (shares.shape[-2], -1)).transpose(-3, -2)
    return (shares[..., None, :] @ groups).squeeze(-2).flatten(-2)


@RESIDUALS.register("multi_head_depth_attention")
class MultiHeadDepthAttention(DepthAttention):
    """Residual depth_attention with one softmax over depth for each of H groups of channels (Luo et al. 2026, MHAR).

    The query w and the gain are split into H parts, so H adds no parameters. At the start w = 0: the uniform mean. Computed in fp32.

    Args:
        heads: H, a divisor of d_model; 1 is residual depth_attention.
        rate: factor of the parameters' learning rate.
    """

    read_if = ()  # type: ignore[assignment]

    def __init__(self, site: Site, *, heads: Annotated[int, Bounds(ge=1, le=64)] = 4, rate: Positive = 1.0) -> None:
        super().__init__(site, rate=rate)
        self.heads = heads

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["d_model"] % options.get("heads", 4):
            return f"heads is {options.get('heads', 4)}; expected a divisor of d_model, {site['d_model']}"
        return super().check(site, **options)

    def mix(self, sources: Sources) -> Tensor:
        if not self.mixes:
            return sources[-1]
        with full_precision(sources[0]):
            v = torch.stack(sources, dim=-2).float()
            return mixture(self.shares(v), v)

    def shares(self, v: Tensor) -> Tensor:
        """Returns a: [B, T, J, D] -> [B, T, H, J]."""
        assert self.query is not None and self.gain is not None
        return shares_of(v, self.query * self.gain, self.heads, self.eps)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the mean of a over the groups."""
        return {name: a.mean(-2) for name, a in super().weights(s).items()}


@RESIDUALS.register("delta_depth_attention")
class DeltaDepthAttention(Residual):
    """x = h + g sum_j a_j v_j, h' = h + y, a = softmax_j(w . rms(v_j)), v_0 = h_0, v_j = y_j (Luo et al. 2026, delta attention residuals).

    The gate g is one number, an option of the authors: their default has no gate, g = 1. At the start g = 0, which gives the plain network,
    and w = 0, so g learns first. The first sub-layer reads
    only h_0 (assumed: its sum is a multiple of h_0, which pre-norm removes). The stack's output is h. The mixture is computed in fp32."""

    norm_orders = ("pre",)
    streams = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.eps, self.number_kept = site.config.norm_eps, site.sublayers + 1
        mixes = site.sublayer > 1 and site.place > 0
        self.query = starts_as(torch.zeros(site.d_model)) if mixes else None
        self.gain = starts_as(torch.ones(site.d_model)) if mixes else None
        self.gate = starts_as(torch.zeros(1)) if mixes else None

    def start(self, h_0: Tensor) -> State:
        """Returns the state with source h_0 and stream h_0. torch.compile gets the plain equation, without `kept`."""
        kept = None if torch.compiler.is_compiling() else DepthMix(self.number_kept, self.eps)
        return State((), h_0, kept).put(h_0)

    def read(self, s: State) -> tuple[Tensor, State]:
        if self.query is None or self.gain is None or self.gate is None:
            return self.end(s), s
        with full_precision(s.sources[0]):
            if s.kept is None:
                v = torch.stack(s.sources, dim=-2).float()
                mixed = mixture(self.shares(v), v)
            else:
                mixed, s = s.read(self.query * self.gain)
            return self.end(s) + self.gate * mixed, s

    def shares(self, v: Tensor) -> Tensor:
        """Returns a: [B, T, J, D] -> [B, T, 1, J]."""
        assert self.query is not None and self.gain is not None
        return shares_of(v, self.query * self.gain, 1, self.eps)

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> State:
        y = drop(y)
        return s.put(y)._replace(running=self.end(s) + y)

    def end(self, s: State) -> Tensor:
        assert s.running is not None
        return s.running

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns a. The sources are h_0 and the outputs of sub-layers."""
        return {} if self.query is None else {"sources": self.shares(torch.stack(s.sources, dim=-2).float())}
