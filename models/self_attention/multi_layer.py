"""Multi-layer attention of Dou et al. 2018."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from models.aggregations.iterative import AggregationNode
from models.attention import MultiHeadAttention
from models.registry import SELF_ATTENTIONS
from models.seams import SelfAttention
from models.site import Flow, Site
from models.sublayer import SubLayer


@SELF_ATTENTIONS.register("multi_layer")
class MultiLayerSelfAttention(SelfAttention):
    """C_{-i} = MHA_i(query from H^{l-1}; keys, values from H^{l-i}), i = 1..k; C = AGG(C_{-1},..,C_{-k}) (Dou et al. 2018, section 3.1.2).

    Layers l <= k are vanilla. Each MHA_i is complete and separate. In pre-norm each lower state has a norm of its own.

    Args:
        k: number of layers that are attended to, at least 2 and less than there are layers.
    """

    reads_stream = True

    def __init__(self, site: Site, *, k: int = 2) -> None:
        super().__init__(site)
        self.reads = k if site.layer > k else 0
        self.attention = MultiHeadAttention(site)
        self.sublayer = SubLayer(site)
        if self.reads:
            self.deeper = nn.ModuleList(MultiHeadAttention(site) for _ in range(k - 1))
            self.norms = nn.ModuleList(site.layer_norm() if site.norm == "pre" else nn.Identity() for _ in range(k - 1))
            self.node = AggregationNode(site, k)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        k = options.get("k", 2)
        if k < 2:
            return f"k is {k}; expected at least 2"
        return None if k < site["num_layers"] else f"k {k} needs more than {k} layers; num_layers is {site['num_layers']}"

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        if not self.reads:
            return self.sublayer(x, lambda q: self.attention(q, q, flow))

        def attend(q: Tensor) -> Tensor:
            others = [mha(q, norm(h), flow) for mha, norm, h in zip(self.deeper, self.norms, lower[1:], strict=True)]
            return self.node((self.attention(q, q, flow), *others), flow)

        return self.sublayer(x, attend)
