"""Runge-Kutta layers of Li et al. 2022, and the predictor of Li et al. 2024."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.initialise import starts_as
from models.plain import TransformerLayer
from models.precision import full_precision
from models.registry import LAYERS
from models.site import Flow, Memory, Site

STEPS: dict[int, tuple[float, ...]] = {2: (1.0,), 4: (0.5, 0.5, 1.0)}
"""By order: c_i of F_{i+1} = F(h + c_i F_i)."""
FIXED: dict[int, tuple[float, ...]] = {2: (1 / 2, 1 / 2), 4: (1 / 6, 1 / 3, 1 / 3, 1 / 6)}
START = {"learned": 1.0, "ema": 0.5}


class Weights(nn.Module):
    """Learned weights of one layer or of all layers of a stack."""

    def __init__(self, number: int, start: float) -> None:
        super().__init__()
        self.weight = starts_as(torch.full((number,), start))


@LAYERS.register("runge_kutta")
class RungeKutta(TransformerLayer):
    """h + sum_i w_i F_i, F_1 = F(h), F_{i+1} = F(h + c_i F_i), F(h) = L(h) - h of a pre-norm Transformer layer L: its branches (Li et al.
    2022, ODE Transformer, Eq. 6-9). One layer's weights serve all F_i.

    Published for encoders. A decoder caches keys and values of each evaluation. Not implemented: norms of the F_i (`rk-norm` of the code).

    Args:
        order: number of evaluations of the layer. 2: c = 1; 4: c = 1/2, 1/2, 1.
        coefficients: the weights w. gate (order 2): g and 1 - g, g = sigmoid(W [F_1; F_2] + b); fixed: 1/2, 1/2 and 1/6, 1/3, 1/3, 1/6;
            learned (order 2): two numbers, 1 at the start; ema: a (1 - a)^(o - i) for order o, where a is learned and starts at .5 (Li et
            al. 2024, PCformer); chain: L applied `order` times, a control.
        function: branch: F(h) = L(h) - h; layer: F = L, residuals included (authors' code); the stream then doubles in every layer.
        per: stack: all layers of the side share the learned weights (authors' code); layer: each layer has its own."""

    takes_residual = False
    norm_orders = ("pre",)
    read_if = (
        ("per", "coefficients", ("gate", "learned", "ema")),
        ("function", "coefficients", ("gate", "fixed", "learned", "ema")),
    )

    def __init__(
        self,
        site: Site,
        *,
        order: Literal[2, 4] = 2,
        coefficients: Literal["gate", "fixed", "learned", "ema", "chain"] = "gate",
        function: Literal["branch", "layer"] = "branch",
        per: Literal["stack", "layer"] = "stack",
    ) -> None:
        super().__init__(site)
        self.order, self.coefficients, self.whole = order, coefficients, function == "layer"
        own: nn.Module | None = None
        if coefficients == "gate":
            own = nn.Linear(2 * site.d_model, 1)
        elif coefficients in START:
            own = Weights(2 if coefficients == "learned" else 1, START[coefficients])
        self.own = site.shared.setdefault(f"runge_kutta.{site.side}", own) if own is not None and per == "stack" else own

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        order, kind = options.get("order", 2), options.get("coefficients", "gate")
        if kind in ("gate", "learned") and order != 2:
            return f"found order {order} with coefficients {kind}; expected 2"
        return super().check(site, **options)

    @classmethod
    def runs(cls, **options: Any) -> int:
        return int(options.get("order", 2))

    def forward(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        if self.coefficients == "chain":
            h = x
            for call in range(self.order):
                h, attended = self.once(h, lower, context, memories, flow.at(call))
            return h, attended
        f: list[Tensor] = []
        for call in range(self.order):
            h = x if call == 0 else x + STEPS[self.order][call - 1] * f[-1]
            after, a = self.once(h, lower, context, memories, flow.at(call))
            attended = a if call == 0 else attended
            f.append(after if self.whole else after - h)
        return self.joined(x, f), attended

    def joined(self, x: Tensor, f: list[Tensor]) -> Tensor:
        """x + sum_i w_i F_i"""
        with full_precision(x):
            x, f = x.float(), [one.float() for one in f]
            for w, one in zip(self.shares(f), f, strict=True):
                x = x + w * one
            return x

    def shares(self, f: list[Tensor]) -> tuple[Tensor | float, ...]:
        """Returns w_1 .. w_o: numbers or tensors [B, T, 1]."""
        if self.coefficients == "fixed":
            return FIXED[self.order]
        if isinstance(self.own, nn.Linear):
            g = torch.sigmoid(self.own(torch.cat(f, dim=-1)))
            return g, 1.0 - g
        assert isinstance(self.own, Weights)
        if self.coefficients == "learned":
            return tuple(self.own.weight)
        a = self.own.weight
        return tuple(a * (1.0 - a) ** (self.order - i) for i in range(1, self.order + 1))

    def once(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        return super().forward(x, lower, context, memories, flow)
