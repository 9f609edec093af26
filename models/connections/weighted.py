"""Learned weights over all layers below: DLCL (Wang et al. 2019), DenseFormer (Pagliardini et al. 2024), PCformer (Li et al. 2024)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.config import Positive
from models.initialise import starts_as
from models.kept_once import States
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


class Sums(States):
    """x_l = sum_{k<l} r_lk y_k over at most K states, stored as rows of M numbers."""

    y: Tensor  # [K, M]

    def __init__(self, number: int) -> None:
        self.number = number

    def place(self, y: Tensor, k: int) -> Tensor:
        if k == 0:
            self.y = y.new_empty(self.number, y.numel())
        # `data` has its own version counter: later writes to other rows must not invalidate this row
        return self.y.data[k].view(y.shape).copy_(y)

    def mix(self, row: Tensor, l: int) -> tuple[Tensor, ...]:
        return (torch.mv(self.y[:l].t(), row.to(self.y.dtype)),)

    def begin(self, top: int) -> "SumGradients":
        return SumGradients(self.y)


class SumGradients:
    """Gradients of one backward pass. dx [K, M] and weight rows [K, K]: index l - 1 belongs to x_l."""

    def __init__(self, y: Tensor) -> None:
        self.y, self.dx, self.rows = y, torch.zeros_like(y), y.new_zeros(len(y), len(y))

    def arrived(self, l: int, dx: Tensor | None, row: Tensor) -> Tensor | None:
        if dx is None:
            return None
        self.dx[l - 1], self.rows[l - 1, :l] = dx.flatten(), row
        return torch.mv(self.y[:l], self.dx[l - 1])

    def of(self, k: int, l: int) -> Tensor:
        return torch.mv(self.dx[l - 1 :].t(), self.rows[l - 1 :, k])


class RunningMix:
    """The `Sums` of one pass of a connection."""

    def __init__(self, number: int) -> None:
        self._states = Sums(number)
        self._new: list[Tensor] = []
        self._above: Tensor | None = None

    @classmethod
    def start(cls, history: History, number: int) -> "RunningMix | None":
        """Returns a mix that holds h_0, or None under torch.compile, which gets the plain sum."""
        if torch.compiler.is_compiling():
            return None
        mix = cls(number)
        history.kept[0] = mix.put(history.kept[0], 0)
        return mix

    def put(self, y: Tensor, k: int) -> Tensor:
        """Stores y as state k and returns y_k."""
        self._new.append(self._states.put(y, k))
        return self._new[-1]

    def read(self, row: Tensor) -> Tensor:
        """Returns x_l from r_l [l], where l is the number of states so far."""
        x, self._above = self._states.read(row, len(row), self._above, *self._new)
        self._new = []
        return x


def averages(states: int) -> Tensor:
    """Returns [K, K] weights: each row averages the states up to the diagonal."""
    weight = torch.ones(states, states).tril()
    return weight / weight.sum(1, keepdim=True)


@CONNECTIONS.register("dlcl")
class Dlcl(Connection):
    """x_{l+1} = sum_{k=0}^{l} W_{l+1,k} LN_k(h_k), LN_0 the identity (Wang et al. 2019, "Learning deep Transformer models", Eq. 5-6).

    W is lower triangular, learned and not normalised. Each row starts as the average. The last row's mixture is the stack's output. In
    post-norm the norms follow the sums, as in the authors' code: x_{l+1} = LN_l(sum_k W_{l+1,k} h_k). W has (L+1)^2 entries; those above
    the diagonal stay 0. Memory holds each y_k once, however many layers read it."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.weight = starts_as(averages(site.num_layers + 1))
        self.norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))
        self.pre = site.norm == "pre"

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        y = self.norms[layer - 1](h) if self.pre else h
        mix: RunningMix | None = history.memo[self]
        return y if mix is None else mix.put(y, layer)

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        if layer == 1:
            history.memo[self] = RunningMix.start(history, len(self.weight))
        mix, row = history.memo[self], self.weight[layer - 1, :layer]
        x = torch.tensordot(row, torch.stack(history.kept), dims=1) if mix is None else mix.read(row)
        return x if self.pre or layer == 1 else self.norms[layer - 2](x)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns W. The readers are x_1 .. x_{L+1}, the sources y_0 .. y_L."""
        return {"layers": self.weight.masked_fill(torch.ones_like(self.weight).triu(1).bool(), torch.nan)}


@CONNECTIONS.register("dwa")
class Dwa(Connection):
    """x_{l+1} = sum_{j<=l} a_lj h_j over the unmixed outputs h_j, also after the last layer (Pagliardini et al. 2024, DenseFormer, Eq. 1).

    The learned weights are not normalised. They start as a_ll = 1 and 0 elsewhere: the plain network. Sums over one state are left out.

    Args:
        dilation: k of "k x p": a sum is over the states j = l modulo k.
        period: p of "k x p": a sum follows only every p-th layer.
        keeps: all: a sum is over the outputs of all layers (the authors' package); units: only over the outputs of every p-th layer, and
            the dilation counts in these units (the authors' experiments).
        where: all: a sum follows every layer that the period allows; top: only the last layer.
        rate: factor of the learning rate of the weights a."""

    read_if = (("dilation", "where", ("all",)), ("period", "where", ("all",)))
    for_top = (("where", "top"),)

    def __init__(
        self,
        site: Site,
        *,
        dilation: int = 1,
        period: int = 1,
        keeps: Literal["all", "units"] = "all",
        where: Literal["all", "top"] = "all",
        rate: Positive = 1.0,
    ) -> None:
        super().__init__(site)
        layers, step = site.num_layers, period * dilation if keeps == "units" else dilation
        self.rate, self.states = rate, layers + 1
        mixed = [l for l in range(1, layers + 1) if l % period == 0 and (where == "all" or l == layers)]
        self.sources = {l: list(range(l % step, l + 1, step)) for l in mixed if l >= step}
        places = [l * self.states + j for l, js in self.sources.items() for j in js]
        self.places: Tensor  # a buffer: it moves to the device with the model, not in each pass
        self.register_buffer("places", torch.tensor(places, dtype=torch.long), persistent=False)
        self.weight = starts_as(torch.tensor([float(place % self.states == place // self.states) for place in places]))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        layers, k, p = site["num_layers"], options.get("dilation", 1), options.get("period", 1)
        step = k * p if options.get("keeps", "all") == "units" else k
        if not any(l % p == 0 and l >= step for l in range(1, layers + 1)):
            return f"found dilation {k} and period {p} in {layers} layers, where no sum has two states; expected less"
        return super().check(site, **options)

    def rows(self, absent: float = 0.0) -> Tensor:
        """Returns a_lj as a matrix [L + 1, L + 1]. absent: value of missing weights."""
        full = self.weight.new_full((self.states**2,), absent)
        return full.index_put((self.places,), self.weight).unflatten(0, (self.states, self.states))

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        mix: RunningMix | None = history.memo[self][0]
        return h if mix is None else mix.put(h, layer)

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        l = layer - 1
        if l == 0:
            history.memo[self] = RunningMix.start(history, self.states), self.rows()
        mix, rows = history.memo[self]
        if l not in self.sources:
            return history.kept[l]
        if mix is not None:
            found: Tensor = mix.read(rows[l, :layer])
            return found
        return torch.stack([rows[l, j] * history.kept[j] for j in self.sources[l]]).sum(0)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns a. The readers are x_1 .. x_{L+1}, the sources h_0 .. h_L."""
        return {"layers": self.rows(torch.nan)}


@CONNECTIONS.register("corrector")
class Corrector(Connection):
    """c_l = L_l(sum_{j<l} A_lj y_j + A_ll LN'_l(p_l)), y_l = LN_l(c_l), y_0 = h_0, x_{l+1} = sum_{j<=l} B_lj y_j (Li et al. 2024).

    p_l is the prediction of layer l from x_l (in the paper: `layer: runge_kutta`, coefficients ema). The layer then runs again, with the
    same weights, on the sum of its prediction and the states below. This second output replaces the prediction. A and B are [L+1, L+1].
    Their rows start as averages; entries without a state never change. The authors' code reads B, but its definition is commented out."""

    corrects = True
    norm_orders = ("pre",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        states = site.num_layers + 1
        self.predicted, self.weight = starts_as(averages(states)), starts_as(averages(states))
        self.prediction_norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))
        self.norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))

    def corrected(self, layer: int, h: Tensor, history: History) -> Tensor:
        return self._mixed(self.predicted[layer], [*history.kept, self.prediction_norms[layer - 1](h)])

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        y: Tensor = self.norms[layer - 1](h)
        return y

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        return history.kept[0] if layer == 1 else self._mixed(self.weight[layer - 1], history.kept)

    @staticmethod
    def _mixed(row: Tensor, states: list[Tensor]) -> Tensor:
        return torch.tensordot(row[: len(states)], torch.stack(states), dims=1)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns A and B. The readers are c_l (A) or x_{l+1} (B), the sources y_0 .. y_L; A has the prediction p_l in place of y_l."""
        above = torch.ones_like(self.weight).triu(1).bool()
        above[0] = True
        return {name: w.masked_fill(above, torch.nan) for name, w in (("corrected", self.predicted), ("layers", self.weight))}
