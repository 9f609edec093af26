"""Hyper-connections of Zhu et al. 2025. The products that read, mix and write the n streams have hand-written backward passes.

Shapes: n streams of width D; leading axes are tokens. Streams are fp32. A sub-layer saves the streams once for the backward pass. Each
function that reads them also returns them, so their gradient is summed along this chain. torch.compile and inference use the plain forms.
"""

from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.config import Bounds, Positive
from models.dropout import Dropout
from models.initialise import starts_as
from models.precision import full_precision
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


def _plain() -> bool:
    return torch.compiler.is_compiling() or not torch.is_grad_enabled()


def normed_product(s: Tensor, weight: Tensor, eps: float, *, centred: bool = False) -> tuple[Tensor, Tensor]:
    """Returns (rms(s) W, s) for s [.., D] and W [D, E]; centred: LN(s) W, LN without gain and offset. Later reads use the returned s."""
    if centred:
        weight = weight - weight.mean(0)  # the product then ignores the mean of s
    if _plain():
        return (s @ weight) * _scale(s, eps, centred)[..., None], s
    product, s = _NormedProduct.apply(s, weight, eps, centred)
    return product, s


def read_streams(s: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (sum_a p_a s_a [.., D], s) for s [.., n, D] and p [.., n]. Later reads use the returned s."""
    if _plain():
        return (p[..., None] * s).sum(-2), s
    x, s = _Read.apply(s, p)
    return x, s


def write_streams(s: Tensor, r: Tensor | None, q: Tensor, y: Tensor) -> Tensor:
    """s'_a = sum_b R_ab s_b + q_a y: s [.., n, D], R [.., n, n], q [.., n], y [.., D] -> [.., n, D]"""
    if r is None:
        return s + q[..., None] * y[..., None, :]
    if _plain():
        return r @ s + q[..., None] * y[..., None, :]
    new: Tensor = _Write.apply(s, r, q, y)
    return new


def _scale(s: Tensor, eps: float, centred: bool) -> Tensor:
    """[.., D] -> 1 / sqrt(mean s^2 + eps) [..]; centred: of s minus its mean."""
    mean = s.var(-1, unbiased=False) if centred else s.square().mean(-1)
    return (mean + eps).rsqrt()


class _NormedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, weight: Tensor, eps: float, centred: bool) -> tuple[Tensor, Tensor]:
        scale = _scale(s, eps, centred)
        product = (s @ weight).mul_(scale[..., None])
        ctx.save_for_backward(s, weight, scale, product)
        ctx.centred = centred
        return product, s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, d_s: Tensor) -> tuple[Tensor, Tensor, None, None]:
        s, weight, scale, product = ctx.saved_tensors
        by_size = (grad * product).sum(-1).mul_(scale.square()).div_(s.shape[-1])
        grad = (grad * scale[..., None]).flatten(0, -2)
        d_s = torch.addmm(d_s.flatten(0, -2), grad, weight.t()).view(s.shape)
        d_s.addcmul_(s, by_size[..., None], value=-1.0)
        if ctx.centred:
            d_s.add_((by_size * s.mean(-1))[..., None])
        return d_s, s.flatten(0, -2).t() @ grad, None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(s, p)
        return _sum(s, p), s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, d_s: Tensor) -> tuple[Tensor, Tensor]:
        s, p = ctx.saved_tensors
        return torch.addcmul(d_s, p[..., None], grad[..., None, :]), (s * grad[..., None, :]).sum(-1)


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, r: Tensor, q: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(s, r, q, y)
        return _add_mixed(q[..., None] * y[..., None, :].to(s.dtype), r, s)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        s, r, q, y = ctx.saved_tensors
        d_r = torch.stack([(one[..., None, :] * s).sum(-1) for one in grad.unbind(-2)], dim=-2)
        d_q = (grad * y[..., None, :].to(grad.dtype)).sum(-1)
        d_s = _add_mixed(torch.zeros_like(s), r.mT, grad)
        return d_s, d_r, d_q, _sum(grad, q).to(y.dtype)


def _sum(s: Tensor, p: Tensor) -> Tensor:
    """sum_a p_a s_a [.., D]"""
    first, *others = zip(s.unbind(-2), p[..., None].unbind(-2), strict=True)
    total = first[0] * first[1]
    for stream, weight in others:
        total.addcmul_(stream, weight)
    return total


def _add_mixed(out: Tensor, r: Tensor, s: Tensor) -> Tensor:
    """Returns out_a + sum_b R_ab s_b, in place of out."""
    for stream, column in zip(s.unbind(-2), r.unbind(-1), strict=True):
        out.addcmul_(column[..., None], stream[..., None, :])
    return out


Streams = Annotated[int, Bounds(ge=1, le=64)]
State = tuple[Tensor, Tensor | None, Tensor]
"""State between `read` and `write`: streams [B, T, n, D], R [B, T, n, n] (None: the identity) and q [B, T, n]."""


class StreamsResidual(Residual):
    """x = p S, S' = R S + q y for n streams S in fp32, which start as h_0. Subclasses define the coefficients and the stack's output."""

    streams = True
    n: int
    place: int

    def start(self, h_0: Tensor) -> Tensor:
        return h_0[..., None, :].expand(*h_0.shape[:-1], self.n, h_0.shape[-1])

    def coefficients(self, s: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """Returns p [.., n], R [.., n, n] (None: the identity), q [.., n] and s; later reads use this s. Static ones lack token axes."""
        raise NotImplementedError

    def read(self, s: Tensor) -> tuple[Tensor, State]:
        with full_precision(s):
            p, r, q, s = self.coefficients(s.float())
            tokens = s.shape[:-2]
            x, s = read_streams(s, p.expand(*tokens, self.n))
            return x, (s, None if r is None else r.expand(*tokens, self.n, self.n), q.expand(*tokens, self.n))

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        with full_precision(y):
            return write_streams(*s, drop(y))

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        if self.place == 0:
            return {"read": self.end_weights(s.float()), "spread": spread(s)}
        p, r, q, _ = self.coefficients(s.float())
        return {"read": p, "keep": torch.eye(self.n, device=s.device) if r is None else r, "write": q, "spread": spread(s)}

    def end_weights(self, s: Tensor) -> Tensor:
        """Returns the weights of the streams in the stack's output: [.., n]."""
        raise NotImplementedError


@RESIDUALS.register("hyper")
class Hyper(StreamsResidual):
    """x = sum_a m_a H_a; H'_b = sum_a R_ab H_a + w_b y (Zhu et al. 2025, Eq. 1-5): n streams H [B, T, n, D], which all start as h_0.

    At the start W = 0, s = .01, R = I, w = 1, and m selects stream i - 1 modulo n in sub-layer i. The stack's output is the sum of the
    streams. In post-norm it is their mean, and each stream passes through the norm (assumed). Coefficients and streams are fp32.

    Args:
        streams: n, 1 to 64.
        dynamic: whether m, R and w are s * tanh(norm(H_a) W) plus a static part, for each token and stream; else only the static part.
        tanh: whether the dynamic part has the tanh; false is the paper's second form.
        first: which number selects the stream of m at the start: that of the sublayer, or that of the layer (corl-team/lime).
        stream_norm: norm of the dynamic part: layer: LayerNorm without gain (lime); rms: RMS norm with a gain (lucidrains).
        reduce: the stack's output. sum: the sum of the streams (paper); learned: sum_a m_a H_a with its own m. This m starts at 1, in
            post-norm at 1 / n (a public reading)."""

    read_if: tuple[tuple[str, str, tuple[Any, ...]], ...] = (("tanh", "dynamic", (True,)), ("stream_norm", "dynamic", (True,)))

    def __init__(
        self,
        site: Site,
        *,
        streams: Streams = 4,
        dynamic: bool = True,
        tanh: bool = True,
        first: Literal["sublayer", "layer"] = "sublayer",
        stream_norm: Literal["layer", "rms"] = "layer",
        reduce: Literal["sum", "learned"] = "sum",
        rate: Positive = 1.0,
    ) -> None:
        super().__init__(site)
        self.rate = rate
        n, d = streams, site.d_model
        self.place = site.place
        self.n, self.tanh, self.eps, self.mean = n, tanh, site.config.norm_eps, site.norm == "post"
        self.reduces = reduce == "learned" and not site.place
        if not site.place and not self.reduces:
            return
        self.first = ((site.layer if first == "layer" else site.sublayer) - 1) % n
        numbers = 1 if self.reduces else n + 2
        static = torch.ones(n, numbers) / (n if self.reduces and self.mean else 1)
        if not self.reduces:
            static[:, :-1] = 0.0
            static[self.first, 0] = 1.0
            static[:, 1:-1].fill_diagonal_(1.0)
        self.static = starts_as(static)  # of stream a: m_a, R_a1 .. R_an, w_a
        self.weight = starts_as(torch.zeros(d, numbers)) if dynamic else None
        self.scale = starts_as(torch.full((1 if self.reduces else 2,), 0.01)) if dynamic else None  # of m and R, of w
        self.gain = starts_as(torch.ones(d)) if dynamic and stream_norm == "rms" else None

    def coefficients(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        c, s = self._coefficients(s)
        c = c.expand(*s.shape[:-1], self.n + 2)
        return c[..., 0], c[..., 1:-1].mT, c[..., -1], s

    def _coefficients(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (coefficients [B, T, n, n + 2], static ones [n, n + 2]; s, which later reads use)."""
        if self.weight is None or self.scale is None:
            return self.static, s
        if self.gain is None:
            c, s = normed_product(s, self.weight, self.eps, centred=True)
        else:
            c, s = normed_product(s, self.gain[:, None] * self.weight, self.eps)
        c = torch.tanh(c) if self.tanh else c
        scale = torch.cat((self.scale[:1].expand(c.shape[-1] - len(self.scale) + 1), self.scale[1:]))
        return scale * c + self.static, s

    def end(self, s: Tensor) -> Tensor:
        if self.reduces:
            with full_precision(s):
                return (self._coefficients(s.float())[0] * s.float()).sum(-2)
        return s.mean(-2) if self.mean else s.sum(-2)

    def end_weights(self, s: Tensor) -> Tensor:
        return self._coefficients(s)[0][..., 0] if self.reduces else s.new_full((self.n,), 1.0 / self.n if self.mean else 1.0)


def spread(s: Tensor) -> Tensor:
    """Returns the relative distance of n streams from their mean, |S - mean| / |S|: [.., n, D] -> [.., 1]."""
    s = s.float()
    return ((s - s.mean(-2, keepdim=True)).square().sum((-1, -2)) / s.square().sum((-1, -2))).sqrt()[..., None]
