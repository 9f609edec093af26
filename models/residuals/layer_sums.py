"""Sums over all layers below with input-dependent weights: MUDD (Xiao et al. 2025) and DeepCrossAttention (Heddes et al. 2025)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import Positive
from models.dropout import Dropout
from models.initialise import drawn, starts_as
from models.precision import full_precision, rms
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site

MuddState = tuple[tuple[Tensor, ...], Tensor]


@RESIDUALS.register("mudd")
class Mudd(Residual):
    """X^c_l = sum_{j<=l} (a^c_lj + A^c_lj) X_j, A_l = GELU(rms(X_l) W1) W2 (Xiao et al. 2025, Eq. 3-7); X_l: outputs of layers, X_0 = h_0.

    The stack's output is one more sum. The inner width K is ways (l + 1), and 4 (L + 1) for the output. At the start W2 = 0, a_ll = 1 and
    other a = 0: the plain network. W1 ~ N(0, 1 / sqrt(D)). Layer 1 reads h_0. Post-norm is not published. Coefficients and sums are fp32.

    Args:
        ways: 4: queries, keys and values of layer l+1's self-attention read X^q, X^k, X^v. In pre-norm each has its own norm. X^r becomes
            the residual stream, which cross-attention and FFN read (assumed). 1: only X^r, the residual stream, is mixed.
        dynamic: whether the weights have the term A; else they are a alone.
        round: n > 0: the inner width K becomes (K // n + 1) n (authors' code: n = 64); 0: it stays ways (l + 1).
        norms: none: no further norms; printed: X^c_l = X_l + N(sum_j (..) N_lj(X_j)), where N is rms with a gain. At the start the inner
            gains are 1, the outer gain .001 and a = 0 (PrePost, Eq. 10). code: as printed, but only X^r has the outer norm.
    """

    takes_views = True
    streams = True
    read_if = (("round", "dynamic", (True,)),)

    def __init__(
        self,
        site: Site,
        *,
        ways: Literal[1, 4] = 4,
        dynamic: bool = True,
        round: int = 0,
        norms: Literal["none", "printed", "code"] = "none",
        rate: Positive = 1.0,
    ) -> None:
        super().__init__(site)
        self.rate = rate
        d, ends = site.d_model, site.place == 0
        below = site.num_layers if ends else site.layer - 1
        self.reads_first, self.mixes = site.role == "self", (ends or site.role == "self") and below > 0
        self.ways, self.eps, self.number = 1 if ends else ways, site.config.norm_eps, below + 1
        self.views = 3 if self.mixes and self.ways == 4 else 1
        inner = 4 * self.number if ends else ways * self.number
        inner = (inner // round + 1) * round if round else inner
        static = torch.zeros(self.ways, self.number)
        if norms == "none":
            static[:, -1] = 1.0
        self.static = starts_as(static) if self.mixes else None
        self.inner = drawn(d, inner, std=d**-0.5) if self.mixes and dynamic else None
        self.norms_r_alone = norms == "code"
        self.pre_gain = starts_as(torch.ones(self.number, d)) if self.mixes and norms != "none" else None
        self.post_gain = starts_as(torch.full((d,), 1e-3)) if self.mixes and norms != "none" else None
        self.outer = starts_as(torch.zeros(inner, self.ways * self.number)) if self.mixes and dynamic else None

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if options.get("norms", "none") == "code" and options.get("ways", 4) == 1:
            return "found norms code with ways 1, which is norms printed; expected printed"
        return super().check(site, **options)

    def start(self, h_0: Tensor) -> MuddState:
        """Returns (X_0 .. of the layers below: none yet, the stream)."""
        return (), h_0

    def read(self, s: MuddState) -> tuple[Any, MuddState]:
        below, x = s
        if not self.reads_first:
            return x, s
        below = (*below, x)
        if not self.mixes:
            return x, (below, x)
        *views, r = self.mix(below)
        return (tuple(views) or r), (below, r)

    def mix(self, below: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """X_0 .. X_l [B, T, D] -> X^c for each way"""
        with full_precision(below[0]):
            x, states, shares = below[-1].float(), torch.stack(below, dim=-2).float(), self.shares(below[-1])
            if self.pre_gain is None or self.post_gain is None:
                return (shares @ states).unbind(-2)
            *views, r = (shares @ (rms(states, self.eps) * self.pre_gain)).unbind(-2)
            views = views if self.norms_r_alone else [rms(view, self.eps) * self.post_gain for view in views]
            return tuple(x + view for view in (*views, rms(r, self.eps) * self.post_gain))

    def shares(self, top: Tensor) -> Tensor:
        """X_l [B, T, D] -> a + A_l [B, T, ways, l + 1]"""
        assert self.static is not None
        if self.inner is None or self.outer is None:
            return self.static
        own = F.gelu(rms(top, self.eps) @ self.inner) @ self.outer
        return self.static + own.unflatten(-1, (self.ways, self.number))

    def write(self, s: MuddState, y: Tensor, x: Tensor, drop: Dropout) -> MuddState:
        return s[0], drop.add(s[1], y)

    def normed(self, s: MuddState, norm: nn.Module) -> MuddState:
        return s[0], norm(s[1])

    def end(self, s: MuddState) -> Tensor:
        return self.mix((*s[0], s[1]))[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns a + A for each way. The sources are X_0 .. X_l; with `norms`, their normed states, without the added X_l."""
        names = "qkvr" if self.ways == 4 else "r"
        return dict(zip(names, self.shares(s[1]).unbind(-2), strict=True)) if self.mixes else {}


CrossState = tuple[tuple[Tensor, ...], Tensor, Tensor | None]


@RESIDUALS.register("deep_cross_attention")
class DeepCrossAttention(Residual):
    """g = sum_j (b_j + relu(w^T G_j)) * G_j over G = [h_0, f_1, .., f_{l-1}], f_l what layer l adds (Heddes et al. 2025, GRN-v3, DCA).

    Layer l has three sums, for its queries, keys and values. Each has its own norm. The sum of the queries becomes the residual stream,
    which cross-attention and FFN read (assumed). The stack's output is one more sum. Layer 1 reads h_0. b = 1 at the start. In fp32.

    Args:
        gate_start: initial w (not printed). normal: N(0, 0.01); zero: the plain network, but w never changes, since torch has relu'(0) = 0.
        last: k > 0: G = [h_0, the sum of the states between, the last k] (k-DCA); 0: all states.
    """

    norm_orders = ("pre",)
    takes_views = True
    streams = True

    def __init__(self, site: Site, *, gate_start: Literal["normal", "zero"] = "normal", last: int = 0) -> None:
        super().__init__(site)
        d, ends = site.d_model, site.place == 0
        below = site.num_layers if ends else site.layer - 1
        self.mixes = (ends or site.role == "self") and below > 0
        self.last = last
        self.sums = 1 if ends else 3
        self.views = 3 if self.mixes and not ends else 1
        number = min(below + 1, last + 2) if last else below + 1
        gate = starts_as(torch.zeros(self.sums, d)) if gate_start == "zero" else drawn(self.sums, d, std=0.01)
        self.weight = starts_as(torch.ones(self.sums, number, d)) if self.mixes else None
        self.gate = gate if self.mixes else None

    def start(self, h_0: Tensor) -> CrossState:
        """Returns (G, the stream, the sum of what the current layer has added so far)."""
        return (h_0,), h_0, None

    def read(self, s: CrossState) -> tuple[Any, CrossState]:
        below, x, added = s
        if not self.mixes:
            return x, s
        assert added is not None
        below = (*below, added)
        views = self.mix(below)
        return views, (below, views[0], None)

    def mix(self, below: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """States of G, each [B, T, D] -> the sums, each [B, T, D]"""
        assert self.weight is not None
        with full_precision(below[0]):
            g = self._group(below)
            gates = self._gates(g)
            return tuple(((self.weight[c] + gates[..., c, None]) * g).sum(-2) for c in range(self.sums))

    def _group(self, below: tuple[Tensor, ...]) -> Tensor:
        """Returns G [B, T, J, D]."""
        if self.last and len(below) > self.last + 2:
            between = below[1 : -self.last]
            below = (below[0], torch.stack(between).sum(0), *below[-self.last :])
        return torch.stack(below, dim=-2).float()

    def _gates(self, g: Tensor) -> Tensor:
        """Returns relu(w^T G_j): [B, T, J, sums]."""
        assert self.gate is not None
        return torch.relu(g @ self.gate.T)

    def write(self, s: CrossState, y: Tensor, x: Tensor, drop: Dropout) -> CrossState:
        below, stream, added = s
        y = drop(y).to(stream.dtype)
        return below, stream + y, y if added is None else added + y

    def end(self, s: CrossState) -> Tensor:
        assert s[2] is not None
        return self.mix((*s[0], s[2]))[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the mean over D of b_j, plus relu(w^T G_j), for each sum. The sources are h_0 and what each layer added."""
        if not self.mixes or self.weight is None:
            return {}
        gates = self._gates(self._group((*s[0], s[2])))
        return {name: self.weight[c].mean(-1) + gates[..., c] for c, name in enumerate("qkv" if self.sums == 3 else "g")}
