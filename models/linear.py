"""Linear maps of the convolutional models (Gehring et al. 2017), and the widths of states in a stack whose layers may differ."""

import torch
from torch import Tensor, nn

from models.config import MAX_WIDTH, ModelConfig, StackConfig


class NormedLinear(nn.Linear):
    """y = W x + b with W_i = g_i v_i / ||v_i|| row by row (Salimans and Kingma 2016).

    `direction` v [E, D], `gain` g [E]. Each read of `weight` computes W again, so gradients reach v and g.
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
    """Returns a linear map, with weight normalisation if the model has it. `tied`: never with it, since another module owns the weight.

    `dropped`: dropout of its input; `gated`: a GLU follows. Only the initial values with `init: convs2s` use both.
    """
    made = (NormedLinear if config.weight_norm and not tied else nn.Linear)(in_features, out_features, bias)
    made.initial_variance = (4.0 if gated else 1.0) * (1.0 - dropped) / in_features  # type: ignore[assignment]
    return made


def per_layer(value: int | list[int], num_layers: int) -> list[int]:
    """Returns one number per layer, from one number or a list of `num_layers` numbers."""
    return [value] * num_layers if isinstance(value, int) else list(value)


def output_widths(stack: StackConfig, d_model: int) -> list[int]:
    """Returns the widths of h_1 .. h_L: the option `widths` of the layer if it has one, else d_model."""
    return per_layer(stack.layer.get("widths", d_model), stack.num_layers)


def group_size(sumlen: int, num_layers: int) -> int:
    """Returns the number of layers between two summary layers, or `num_layers` without summary layers (sumlen 0)."""
    return sumlen - 1 if sumlen else num_layers


def base(layer: int, group: int) -> int:
    """Returns the number of layers below the group of `layer`."""
    return (layer - 1) // group * group


def last_base(stack: StackConfig) -> int:
    """Returns the number of layers below the last group (0: there is one group)."""
    return base(stack.num_layers, group_size(stack.connection.get("sumlen", 0), stack.num_layers))


def output_dim(config: ModelConfig) -> int:
    """Returns the input width of the output layer."""
    return config.output_dim or config.word_dim or config.d_model


def list_fault(name: str, value: int | list[int], num_layers: int) -> str | None:
    """Returns one line on what is wrong with an option that is one number or one number per layer, or None."""
    if not isinstance(value, int) and len(value) != num_layers:
        return f"{name} has {len(value)} numbers; expected one number or {num_layers}, one for each layer"
    wrong = [number for number in per_layer(value, num_layers) if not 1 <= number <= MAX_WIDTH]
    return f"{name} has {wrong[0]}; expected 1 to {MAX_WIDTH}" if wrong else None
