"""Padding-free rows: the real positions of a padded batch side by side, [1, P, D] for [B, S, D]; documents as their sentences.

Shapes: B sentences (or documents), S longest, P real positions, D width; R sentences of all documents, J longest sentence, N most
sentences of a document.
"""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.layout import PAD, Layout
from models.paths import PATHS

EOS = 3

PACK_SHARE = 0.02
"""Padding from which a batch is packed; below it, packing costs more than it saves."""


def may_pack(device: torch.device) -> bool:
    """Whether batches are packed here without a layout: a fast path of training on a CPU."""
    return PATHS.packing and device.type == "cpu" and not torch.compiler.is_compiling()


def worth_packing(mask: Tensor) -> "Packing | None":
    """The packing of a batch with much padding, None for one with little. mask: [B, S], True = real."""
    return Packing(mask) if int(mask.sum()) < (1.0 - PACK_SHARE) * mask.numel() else None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, packing: "Packing") -> Tensor:
        ctx.packing = packing
        return x_ND.index_select(0, packing.real)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.packing.without_padding(grad.index_select(0, ctx.packing.place)), None


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_PD: Tensor, packing: "Packing") -> Tensor:
        ctx.packing = packing
        return x_PD.index_select(0, packing.place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.real), None


class Packing:
    """Where the real positions of a batch stand. `mask`: [B, S], True = real. `layout`: where the host counted them; attention then reads
    the rows as they are (`models.attention.attend_rows`). Its rows of padding, which make up a number of rows, are no sentence's."""

    def __init__(self, mask: Tensor, layout: Layout | None = None) -> None:
        self.mask, self.shape, self.layout = mask, mask.shape, layout
        self.real = mask.flatten().nonzero().squeeze(1) if layout is None else layout.real

    @cached_property
    def place(self) -> Tensor:
        """[B * S]: the row of each position; of padding, the last one before it."""
        return (self.mask.flatten().cumsum(0) - 1).clamp_(min=0)

    @cached_property
    def padding(self) -> Tensor:
        return (~self.mask.flatten()).nonzero().squeeze(1)

    @cached_property
    def starts(self) -> Tensor:
        """[B + 1]: the first row of each sentence, and the number of all."""
        return F.pad(self.mask.sum(1).cumsum(0), (1, 0))

    @cached_property
    def row_mask(self) -> Tensor:
        """The mask of packed rows: [1, P], True = real."""
        if self.layout is not None:
            return self.mask.flatten()[self.real][None]
        return torch.ones(1, len(self.real), dtype=torch.bool, device=self.real.device)

    def without_padding(self, x: Tensor) -> Tensor:
        """[B * S, D], zero at padding; in place."""
        if self.layout is not None:
            return x.masked_fill_(~self.mask.flatten()[:, None], 0.0)
        return x.index_fill_(0, self.padding, 0.0)

    def ids(self, ids_BS: Tensor) -> tuple[Tensor, Tensor]:
        """(ids, places in their sentences) of the packed rows, each [1, P]."""
        return ids_BS.flatten()[self.real][None], (self.real % self.shape[1])[None]

    def pack(self, x_BSD: Tensor) -> Tensor:
        """[B, S, D] -> [1, P, D]"""
        return _Pack.apply(x_BSD.flatten(0, 1), self)[None]

    def unpack(self, x_1PD: Tensor) -> Tensor:
        """[1, P, D] -> [B, S, D]; padding holds copies of real rows, finite numbers that a mask must hide."""
        return _Unpack.apply(x_1PD[0], self).view(*self.shape, -1)


class Sentences:
    """Where sentences stand in source ids [B, S]. A sentence ends with EOS; a document's last token ends its last sentence.

    The encoder reads `rows` [R, J], one sentence each. Real tokens have the same order in rows and documents, so that packed rows [1, P, D]
    are alike. `ends` [R]: each sentence's last token, as its place among the real tokens; `sentence` [P]: the sentence of each of them.
    `sentence_mask` [B, N]: True where a document has a sentence; `packing`: of it; `document_packing`: of the real tokens in [B, S].
    """

    def __init__(self, src_BS: Tensor) -> None:
        self.mask = src_BS != PAD
        self.mask[:, 0] = True  # an empty document is one sentence of padding
        ends_BS = self.mask & ((src_BS == EOS) | ~F.pad(self.mask[:, 1:], (0, 1)))
        ends_P = ends_BS[self.mask]
        self.document_packing = Packing(self.mask)
        self.sentence, self.ends = ends_P.cumsum(0) - ends_P.long(), ends_P.nonzero().squeeze(1)
        self.row_mask = _first(torch.diff(self.ends, prepend=self.ends.new_tensor([-1])))
        self.rows = src_BS.new_zeros(self.row_mask.shape).masked_scatter_(self.row_mask, src_BS[self.mask])
        self.sentence_mask = _first(ends_BS.sum(1))
        self.packing = Packing(self.sentence_mask)


def _first(counts: Tensor) -> Tensor:
    """[N] -> [N, most]: True at the first places of each row, as many as it counts."""
    return torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
