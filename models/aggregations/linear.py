"""Linear combinations of layers (Dou et al. 2018) and of groups of layers (Yang et al. 2022)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.initialise import starts_as
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("linear")
class LinearCombination(Aggregation):
    """narrow: h = sum_l W_l H^l, W_l in R^{d x d} (Dou et al. 2018, Eq. 5 as written).

    wide: h = W2 (W1 [H^1;..;H^L] + b1) + b2, W1: 4d x Ld, W2: d x 4d. This reading matches the paper's parameter count.
    Pre-norm states are not normalised, so in pre-norm one norm follows.

    Args:
        mode: wide: two linear maps with a bias, with inner width 4 d_model; narrow: one linear map for each layer.
    """

    reads_top = False

    def __init__(self, site: Site, *, mode: Literal["wide", "narrow"] = "wide") -> None:
        super().__init__(site)
        d, inputs = site.d_model, site.num_layers * site.d_model
        self.combine: nn.Module = nn.Linear(inputs, d, bias=False)
        if mode == "wide":
            self.combine = nn.Sequential(nn.Linear(inputs, 4 * d), nn.Linear(4 * d, d))
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.norm(self.combine(torch.cat(history.kept[1:], dim=-1)))


@AGGREGATIONS.register("groups")
class Groups(Aggregation):
    """LN(1/G sum_g sigmoid(w_g) X_g), X_g the output of the last of each `size` layers (Yang et al. 2022, GTrans, section 3).

    At the start w = 0: the norm of the mean. In a decoder this is their `sparse-without-ensemble`; the paper's decoder is `head: groups`.

    Args:
        size: layers per group. The paper states no size for six layers: 2 is assumed."""

    reads_top = False

    def __init__(self, site: Site, *, size: int = 2) -> None:
        super().__init__(site)
        self.size = size
        self.weight = starts_as(torch.zeros(site.num_layers // size))
        self.norm = site.layer_norm()

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return group_fault(options.get("size", 2), site["num_layers"])

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        total = torch.zeros_like(history.kept[-1])
        for w, x in zip(torch.sigmoid(self.weight), history.kept[self.size :: self.size], strict=True):
            total = total + w * x
        return self.norm(total / len(self.weight))


def group_fault(size: int, num_layers: int) -> str | None:
    """Returns one line on what is wrong with groups of `size` layers, or None."""
    if num_layers % size == 0 and size < num_layers:
        return None
    return f"size is {size}; expected a part of num_layers {num_layers}, so that there are two groups or more"
