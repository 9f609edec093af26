"""Stacked forms of the modules that hold parameters or make positions meet: what `Fused` puts in their place.

Shapes: R runs, N packed positions, D, E widths, V vocabulary, B_r, T_r a run's own batch, H heads, K width of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.aggregations.mlrf_self_attention import MlrfSelfAttention
from models.attention import MultiHeadAttention, attention_weights
from models.dropout import Dropout, draw_bits, keep_mask
from models.embedding import InputEmbedding, sinusoids
from models.fused_sides import Sides
from models.memory import Memory
from models.mlrf import LayerEmbedding
from models.site import Flow


class StackedLinear(nn.Linear):
    """y_r = x_r W_r^T + b_r; weight [R, E, D], bias [R, E]."""

    def forward(self, x: Tensor) -> Tensor:
        return _linear(x, self.weight, self.bias)


def _linear(x: Tensor, weight_RED: Tensor, bias_RE: Tensor | None) -> Tensor:
    flat = x.flatten(1, -2)
    if bias_RE is None:
        y = torch.bmm(flat, weight_RED.transpose(1, 2))
    else:
        y = torch.baddbmm(bias_RE[:, None], flat, weight_RED.transpose(1, 2))
    return y.view(*x.shape[:-1], -1)


class StackedLayerNorm(nn.LayerNorm):
    """weight, bias [R, D]"""

    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        return torch.addcmul(self.bias[:, None], y, self.weight[:, None])


class StackedEmbedding(nn.Embedding):
    """weight [R, V, D]; run r's ids point into its own table."""

    def forward(self, ids_RN: Tensor) -> Tensor:
        runs, vocab, width = self.weight.shape
        first = torch.arange(runs, device=ids_RN.device)[:, None] * vocab
        return F.embedding(ids_RN + first, self.weight.view(-1, width))


class StackedLayerEmbedding(LayerEmbedding):
    """weight [R, L, D]"""

    def forward(self, states: list[Tensor], first: int) -> list[Tensor]:
        return [z + self.weight[:, first + i - self.first, None] for i, z in enumerate(states)]


class StackedMlrfSelfAttention(MlrfSelfAttention):
    """w1 `hop` takes single columns of W2; the rest is as in one run."""

    def _energy(self, z_RNLD: Tensor) -> Tensor:
        if self.w1 != "hop":
            return super()._energy(z_RNLD)
        columns = self.energy_out.weight.split(1, dim=1)
        pairs = zip(self.energy_in, columns, strict=True)  # type: ignore[arg-type]
        return torch.cat([_linear(self.activation(w(z_RNLD)), w2, None) for w, w2 in pairs], dim=-1)


class PackedInputEmbedding(InputEmbedding):
    """As its model's, with each position's own place in its sentence; bias [R, D]."""

    packing: Sides
    side: str

    def forward(self, tokens_RN: Tensor, past: int = 0) -> Tensor:
        x = self.project(self.words(tokens_RN)) * self.scale
        if self.bias is not None:
            x = x + self.bias[:, None]
        side = self.packing.sides[self.side]
        if self.places is not None:
            x = x + self.places(side.positions)
        elif self.positions == "sinusoidal":
            x = x + sinusoids(0, side.length, x.shape[-1], x.device).to(x.dtype)[side.positions]
        return self.dropout(x)


class PackedDropout(Dropout):
    """Each run's mask comes from its own generator, in the shape of its own batch."""

    packing: Sides
    side: str
    whole = False
    """The solo run draws for the padded batch, before it packs (embeddings)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        return _Masked.apply(x, self._keep(x), 1.0 / (1.0 - self.p))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + self(y)

    def relu(self, x: Tensor) -> Tensor:
        return self(torch.relu(x))

    def of_run(self, x: Tensor, run: int) -> Tensor:
        """Dropout of one run's own tensor, in any shape."""
        if not self.training or self.p == 0.0 or x.numel() == 0:
            return x
        return _Masked.apply(x, self._draw(torch.empty_like(x), run), 1.0 / (1.0 - self.p))

    def _keep(self, x_RND: Tensor) -> Tensor:
        keep, side = torch.zeros_like(x_RND), self.packing.sides[self.side]
        for run, (rows, packing, (sentences, length)) in enumerate(zip(side.rows, side.packings, side.shapes, strict=True)):
            if rows and self.whole and packing is not None:
                padded = self._draw(x_RND.new_empty(sentences * length, *x_RND.shape[2:]), run)
                keep[run, :rows] = padded[packing.real]
            elif rows:
                self._draw(keep[run, :rows], run)
        return keep

    def _draw(self, keep: Tensor, run: int) -> Tensor:
        """The mask that `models.dropout` would make, from the run's generator, in `keep`."""
        return keep_mask(draw_bits(keep, self.packing.generators[run]), self.p, keep.dtype, out=keep)


class _Masked(torch.autograd.Function):
    """x * mask * scale; the mask is a number of the type of x, for torch's kernels for booleans are several times slower."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return (x * keep).mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None


class PackedAttention(MultiHeadAttention):
    """Maps of all runs at once; softmax(Q K^T / sqrt(K)) V on each run's own block."""

    packing: Sides
    side: str

    def forward(self, x_RND: Tensor, keys_RND: Tensor, flow: Flow) -> Tensor:
        side = self.packing.sides[self.side]
        if x_RND is keys_RND and self.query.in_features == self.key.in_features:
            weight = torch.cat((self.query.weight, self.key.weight, self.value.weight), dim=1)
            bias = torch.cat((self.query.bias, self.key.bias, self.value.bias), dim=1)
            parts = [piece.chunk(3, dim=-1) for piece in side.blocks(_linear(x_RND, weight, bias))]
        else:
            parts = list(zip(*(side.blocks(t) for t in (self.query(x_RND), self.key(keys_RND), self.value(keys_RND))), strict=True))
        return self._attend_each(parts, self.side)

    def over(self, x_RND: Tensor, memory: Memory, flow: Flow) -> Tensor:
        src, values = self.packing.sides["src"], memory.keys if memory.values is None else memory.values
        queries = self.packing.sides[self.side].blocks(self.query(x_RND))
        if values is memory.keys and self.key.in_features == self.value.in_features:
            weight = torch.cat((self.key.weight, self.value.weight), dim=1)
            bias = torch.cat((self.key.bias, self.value.bias), dim=1)
            pairs = [piece.chunk(2, dim=-1) for piece in src.blocks(_linear(memory.keys, weight, bias))]
        else:
            pairs = list(zip(src.blocks(self.key(memory.keys)), src.blocks(self.value(values)), strict=True))
        return self._attend_each([(q, k, v) for q, (k, v) in zip(queries, pairs, strict=True)], "src")

    def _attend_each(self, parts: list[Any], keys: str) -> Tensor:
        biases = self.packing.bias[self.side, keys]
        z = [self._attend_one(run, q, k, v, biases[run]) for run, (q, k, v) in enumerate(parts)]
        return self.output(self.packing.sides[self.side].join(z, self.num_heads * self.d_head))

    def _attend_one(self, run: int, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """[B_r, T_r, D], [B_r, S_r, D] x 2 -> [B_r, T_r, D]"""
        q, k, v = (t.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2) for t in (q, k, v))
        if q.numel() == 0:
            return q.transpose(1, 2).flatten(2)
        assert isinstance(self.dropout, PackedDropout)
        dropped = self.dropout.of_run(attention_weights(q, k, bias), run).to(v.dtype)
        return torch.matmul(dropped, v).transpose(1, 2).flatten(2)


FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.LayerNorm: StackedLayerNorm,
    nn.Embedding: StackedEmbedding,
    LayerEmbedding: StackedLayerEmbedding,
    MlrfSelfAttention: StackedMlrfSelfAttention,
    InputEmbedding: PackedInputEmbedding,
    Dropout: PackedDropout,
    MultiHeadAttention: PackedAttention,
}


def form(module: nn.Module) -> type[nn.Module] | None:
    """The stacked form of a module; of exactly its class, for a subclass may do anything."""
    return FORMS.get(type(module))


def transform(network: nn.Module, weights: Mapping[int, nn.Parameter], packing: Sides) -> None:
    """Turn a model into the stacked form of itself, in place. weights: id of a parameter -> the stacked one."""
    for path, module in network.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            module._parameters[name] = weights[id(parameter)]
        cls = form(module)
        if cls is not None:
            module.__class__ = cls
            if issubclass(cls, (PackedInputEmbedding, PackedDropout, PackedAttention)):
                object.__setattr__(module, "packing", packing)
                object.__setattr__(module, "whole", path.endswith("embedding.dropout"))
                object.__setattr__(module, "side", "src" if path.startswith(("src_embedding", "encoder")) else "tgt")
