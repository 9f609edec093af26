"""Linear maps of the convolutional models: weight normalisation and initial values (Gehring et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.config import ModelConfig


class NormedLinear(nn.Linear):
    """y = W x + b with W_i = g_i v_i / ||v_i|| row by row (Salimans and Kingma 2016).

    `direction` v [E, D], `gain` g [E]. W is made anew wherever `weight` is read, so that its gradients reach both.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.direction = nn.Parameter(torch.empty(out_features, in_features))
        self.gain = nn.Parameter(torch.empty(out_features))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        return torch._weight_norm(self.direction, self.gain[:, None], 0)


def linear(
    config: ModelConfig,
    in_features: int,
    out_features: int,
    *,
    bias: bool = True,
    dropped: float = 0.0,
    gated: bool = False,
    tied: bool = False,
) -> nn.Linear:
    """A linear map, with weight normalisation where the model has it. `tied`: without, because the weight is another module's.

    `dropped`: dropout of its input; `gated`: a GLU follows. Both are for the initial values (`init: convs2s`) alone.
    """
    made = (NormedLinear if config.weight_norm and not tied else nn.Linear)(in_features, out_features, bias)
    made.initial_variance = (4.0 if gated else 1.0) * (1.0 - dropped) / in_features  # type: ignore[assignment]
    return made
