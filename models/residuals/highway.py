"""Residuals between pre-norm and post-norm: Keel of Chen and Wei 2026 and SiameseNorm of Li et al. 2026."""

import torch
from torch import Tensor

from models.dropout import Dropout
from models.registry import LAYERS, RESIDUALS
from models.seams import Residual
from models.site import Site


@RESIDUALS.register("keel", version=2)
class Keel(Residual):
    """LN(alpha x + F(LN'(x))), alpha the number of the stack's sub-layers (Chen and Wei 2026, Keel).

    Layer 1 has alpha = 1, its first sub-layer is x + F(LN'(x)): so in two public codes (Apertus 2, torchtitan); cross-attention assumed.
    The norms are LayerNorms with gain and offset; the paper has RMS norms. alpha = 1 without LN' is post-norm.
    """

    norm_orders = ("post",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.alpha = 1.0 if site.layer == 1 else float(site.sublayers)
        self.post_norm = site.sublayer > 1
        self.inner = site.layer_norm()

    def read(self, s: Tensor) -> tuple[Tensor, Tensor]:
        return self.inner(s), s

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        return drop.add(self.alpha * s, y)


TwoStreams = tuple[Tensor, Tensor]


@RESIDUALS.register("siamese")
class Siamese(Residual):
    """u' = LN_u(u) + y / c, w' = w + y, y = F(LN(LN_u(u) + LN_w(w))): two streams u and w, h_0 at the start (Li et al. 2026, SiameseNorm).

    u is the post-norm stream, w the pre-norm stream. The stack's output is LN(LN_u(u) + LN_w(w)). c = sqrt(i), where i is the number of
    sub-layers up to the end of the layer. This follows the authors' vision code; their language code has no LN_u in front of attention.
    """

    norm_orders = ("pre",)
    streams = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.post, self.pre = site.layer_norm(), site.layer_norm()
        upto = site.before + LAYERS.get(site.stack.layer["kind"]).sublayers(site)
        self.factor = upto**-0.5 if site.place else 1.0

    def start(self, h_0: Tensor) -> TwoStreams:
        return h_0, h_0

    def read(self, s: TwoStreams) -> tuple[Tensor, TwoStreams]:
        u = self.post(s[0])
        return u + self.pre(s[1]), (u, s[1])

    def write(self, s: TwoStreams, y: Tensor, x: Tensor, drop: Dropout) -> TwoStreams:
        y = drop(y)
        return torch.add(s[0], y, alpha=self.factor), s[1] + y

    def end(self, s: TwoStreams) -> Tensor:
        return self.read(s)[0]
