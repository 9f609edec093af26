"""Initial values. Each parameter has its own random stream, named by its path, so a new module changes no other initial value."""

import hashlib
import math

import torch
from torch import Tensor, nn

_DECLARED: tuple[tuple[type[nn.Module], tuple[str, ...]], ...] = (
    (nn.LayerNorm, ("weight", "bias")),
    (nn.Embedding, ("weight",)),
    (nn.Linear, ("weight", "bias", "direction", "gain")),
)
"""Parameters for which `_draw` has a rule. Other parameters need an `initialise` method of their module."""


class NoInitialValueError(ValueError):
    """No rule gives a parameter its initial value. The message is one line."""


def starts_as(value: Tensor) -> nn.Parameter:
    """Returns a parameter that starts as `value`, for every scheme and seed."""
    parameter = nn.Parameter(value)
    parameter.starts = True  # type: ignore[attr-defined]
    return parameter


def drawn(*shape: int, std: float = 0.0, bound: float = 0.0) -> nn.Parameter:
    """Returns a parameter that starts as N(0, std), or U(+-bound), for every scheme."""
    parameter = nn.Parameter(torch.zeros(shape))
    parameter.drawn = (std, bound)  # type: ignore[attr-defined]
    return parameter


def stream_seed(seed: int, *names: object) -> int:
    """Returns a 63-bit seed for the random stream called `names`."""
    text = "/".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def initialise(model: nn.Module, scheme: str, seed: int) -> None:
    """Draws the initial value of every parameter, always on the CPU. NoInitialValueError: no rule covers a parameter.

    N(m, s) has standard deviation s. Embeddings: N(0, d^-0.5). Norms: gain 1, offset 0. `xavier`: uniform with variance
    2/(fan_in + fan_out), biases 0. `fan-in`: weights and biases U(+-1/sqrt(fan_in)) (Wang 2018). `convs2s`: embeddings N(0, 0.1), biases 0;
    a map of n inputs with dropout p is N(0, sqrt((1 - p) / n)), and twice that before a GLU (Gehring et al. 2017, section 3.5). Gains of
    weight normalisation are ||v||, so the map starts as the plain one. With `zero_residual` the last maps of attention and feed-forward in
    Transformer layers are 0 (Zhang et al. 2019, Fixup), unless their residual defines its own start. A module with
    `initialise(name, generator)` draws its own parameters; `starts_as` and `drawn` define a single parameter."""
    require_all(model)
    done: set[int] = set()
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in done or getattr(parameter, "starts", False):  # tied: the first path names the stream
                continue
            done.add(id(parameter))
            generator = torch.Generator().manual_seed(stream_seed(seed, "init", f"{path}.{name}"))
            with torch.no_grad():
                parameter.copy_(_draw(module, name, parameter, scheme, generator))


def require_all(model: nn.Module) -> None:
    """Calls `require` for every parameter; for a tied one, at its first path."""
    owners = dict(model.named_modules())
    for path, _ in model.named_parameters():
        owner, _, name = path.rpartition(".")
        require(owners[owner], name, path)


def require(module: nn.Module, name: str, path: str) -> None:
    """Raises NoInitialValueError if no rule gives the module's own parameter `name` its initial value. path: its name in the message."""
    if any(isinstance(module, cls) and name in names for cls, names in _DECLARED) or hasattr(module, "initialise"):
        return
    if {"starts", "drawn"} & vars(module.get_parameter(name)).keys():
        return
    raise NoInitialValueError(
        f"parameter {path}: found no declared initial value (what the constructor sets is drawn over); "
        f"expected starts_as(value), drawn(shape), or a method initialise(self, name, generator) of {type(module).__name__} that returns it"
    )


def uniform_bound(scheme: str, fan_in: int, fan_out: int) -> float:
    """Returns a of U(-a, a): 1/sqrt(fan_in) for `fan-in`, else Glorot's sqrt(6 / (fan_in + fan_out))."""
    return 1.0 / math.sqrt(fan_in) if scheme == "fan-in" else math.sqrt(6.0 / (fan_in + fan_out))


def _draw(module: nn.Module, name: str, parameter: Tensor, scheme: str, generator: torch.Generator) -> Tensor:
    value = torch.empty(parameter.shape)
    if name == "weight" and getattr(module, "starts_at_zero", False):
        return value.zero_()
    if hasattr(parameter, "drawn"):
        std, bound = parameter.drawn
        return value.normal_(0.0, std, generator=generator) if std else value.uniform_(-bound, bound, generator=generator)
    own = getattr(module, "initialise", None)
    if own is not None:
        return own(name, generator)
    if isinstance(module, nn.LayerNorm):
        return value.fill_(1.0 if name == "weight" else 0.0)
    if isinstance(module, nn.Embedding):
        return value.normal_(0.0, 0.1 if scheme == "convs2s" else parameter.shape[1] ** -0.5, generator=generator)
    assert isinstance(module, nn.Linear)
    if name == "bias" and scheme != "fan-in":
        return value.zero_()
    if name == "gain":
        return torch.linalg.vector_norm(module.direction, dim=1)
    gain = getattr(module, "initial_gain", 1.0) if name == "weight" else 1.0
    if scheme == "convs2s":
        variance = getattr(module, "initial_variance", 1.0 / module.in_features)
        return value.normal_(0.0, gain * math.sqrt(variance), generator=generator)
    bound = gain * uniform_bound(scheme, *getattr(module, "fans", (module.in_features, module.out_features)))
    return value.uniform_(-bound, bound, generator=generator)
