"""Hyper-connections of Zhu et al. 2025, and their products with backward passes of their own: n streams read, mixed and written.

Shapes: n streams, D numbers in a stream; leading axes are tokens. Streams are fp32. A sub-layer keeps the streams once; their gradient is
made on its way down: what reads the streams hands them on. Under a compiler, and where nothing learns, the plain forms run.
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
    """(rms(s) W, s) of s [.., D] and W [D, E]; centred: LN(s) W, LN without gain and offset."""
    if centred:
        weight = weight - weight.mean(0)  # the mean of s counts for nothing in a product with it
    if _plain():
        return (s @ weight) * _scale(s, eps, centred)[..., None], s
    product, s = _NormedProduct.apply(s, weight, eps, centred)
    return product, s


def read_streams(s: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """(sum_a p_a s_a [.., D], s) of s [.., n, D] and p [.., n]"""
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
    """[.., D] -> 1 / sqrt(mean s^2 + eps) [..]; centred: of s less its mean."""
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
    """out_a + sum_b R_ab s_b, in the place of out"""
    for stream, column in zip(s.unbind(-2), r.unbind(-1), strict=True):
        out.addcmul_(column[..., None], stream[..., None, :])
    return out


Streams = Annotated[int, Bounds(ge=1, le=64)]
State = tuple[Tensor, Tensor | None, Tensor]
"""Streams [B, T, n, D], R [B, T, n, n] and w [B, T, n], between reading and writing. R None: the identity."""


class StreamsResidual(Residual):
    """x = p S, S' = R S + q y of n streams S, in fp32, at the start n times h_0. A subclass has the coefficients and the stack's output."""

    streams = True
    n: int
    place: int

    def start(self, h_0: Tensor) -> Tensor:
        return h_0[..., None, :].expand(*h_0.shape[:-1], self.n, h_0.shape[-1])

    def coefficients(self, s: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """p [.., n], R [.., n, n], q [.., n], with tokens or without, and s as it goes on."""
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
        """[.., n]: the streams' shares in the stack's output."""
        raise NotImplementedError


@RESIDUALS.register("hyper")
class Hyper(StreamsResidual):
    """x = sum_a m_a H_a; H'_b = sum_a R_ab H_a + w_b y (Zhu et al. 2025, Eq. 1-5): n streams H [B, T, n, D], at the start n times h_0.

    At the start W = 0, s = .01, R = I, w = 1 and m picks stream i - 1 modulo n in sub-layer i. The stack's output is the streams' sum, or
    mean in post-norm, where each stream goes through the norm (assumed). Coefficients and streams in fp32.

    Args:
        streams: n, 1 to 64.
        dynamic: whether m, R and w are s * tanh(norm(H_a) W) plus a static part, a token and stream at a time; else the static part alone.
        tanh: whether the dynamic part goes through tanh; false is the paper's second form.
        first: by what m picks its stream at the start: the number of the sublayer, or of the layer (corl-team/lime).
        stream_norm: norm of the dynamic part: layer: LayerNorm without gain (lime); rms: RMS norm with a gain (lucidrains).
        reduce: the stack's output. sum: the streams' sum, as in the paper; learned: sum_a m_a H_a with an m of its own, 1 at the start (a
            public reading).
    """

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
        """([B, T, n, n + 2], or [n, n + 2] where they are static; s as it goes on)"""
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
    """How far n streams [.., n, D] are from their mean, as a share of their size: [.., 1]."""
    s = s.float()
    return ((s - s.mean(-2, keepdim=True)).square().sum((-1, -2)) / s.square().sum((-1, -2))).sqrt()[..., None]
