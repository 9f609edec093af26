"""Padding-free rows: the real positions of a padded batch side by side, [1, P, D] for [B, S, D]; documents as their sentences.

Everything that treats positions one by one then works on real positions only; attention unpacks its queries, keys and values.
Shapes: B sentences (or documents), S longest, P real positions, D width; R sentences of all documents, J longest sentence, N most
sentences of a document.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models.paths import PATHS

PACK_SHARE = 0.02
"""Padding from which a batch is packed; below it, packing costs more than it saves."""


def may_pack(device: torch.device) -> bool:
    """Whether batches are packed at all here: a fast path of training on a CPU."""
    return PATHS.packing and device.type == "cpu" and not torch.compiler.is_compiling()


def worth_packing(mask: Tensor) -> Packing | None:
    """The packing of a batch with much padding, None for one with little. mask: [B, S], True = real."""
    return Packing(mask) if int(mask.sum()) < (1.0 - PACK_SHARE) * mask.numel() else None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x_ND.index_select(0, packing.real)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.place).index_fill_(0, ctx.packing.padding, 0.0), None


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_PD: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x_PD.index_select(0, packing.place)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.real), None


class Packing:
    """Where the real positions of a batch stand. `mask`: [B, S], True = real."""

    def __init__(self, mask: Tensor) -> None:
        flat = mask.flatten()
        self.mask, self.shape = mask, mask.shape
        self.real = flat.nonzero().squeeze(1)
        self.padding = (~flat).nonzero().squeeze(1)
        self.place = (flat.cumsum(0) - 1).clamp_(min=0)

    @cached_property
    def starts(self) -> Tensor:
        """[B + 1]: the first row of each sentence, and the number of all."""
        return F.pad(self.mask.sum(1).cumsum(0), (1, 0))

    def pack(self, x_BSD: Tensor) -> Tensor:
        """[B, S, D] -> [1, P, D]"""
        return _Pack.apply(x_BSD.flatten(0, 1), self)[None]

    def unpack(self, x_1PD: Tensor) -> Tensor:
        """[1, P, D] -> [B, S, D]; padding holds copies of real rows, finite numbers that a mask must hide."""
        return _Unpack.apply(x_1PD[0], self).view(*self.shape, -1)

    def ones(self) -> Tensor:
        """The mask of packed rows: [1, P], all real."""
        return torch.ones(1, len(self.real), dtype=torch.bool, device=self.real.device)


PAD, EOS = 0, 3


class Sentences:
    """Where sentences stand in source ids [B, S]. A sentence ends with EOS; a document's last token ends its last sentence.

    The encoder is given `rows`, the place of each token in its sentence (`positions`, as `rows`) and `bias`, which hides other sentences:
    each sentence a row [R, J], or each document a row [B, S] with a bias that hides all but the own sentence. Both compute the same;
    which one is taken is a matter of cost (`apart`; None: whichever multiplies less, `linear` being the width of a position's linear
    maps). Real tokens have the same order in both, so that packed rows [1, P, D] are alike.
    """

    def __init__(self, src_BS: Tensor, linear: int = 0, *, packs: bool = False, apart: bool | None = None) -> None:
        self.mask = src_BS != PAD
        if src_BS.shape[1]:
            self.mask[:, 0] = True  # an empty document is one sentence of padding
        ends = self.mask & ((src_BS == EOS) | ~F.pad(self.mask[:, 1:], (0, 1)))
        place = torch.arange(src_BS.shape[1], device=src_BS.device).expand_as(src_BS)
        first = F.pad(torch.where(ends, place + 1, 0)[:, :-1], (1, 0)).cummax(1).values
        self._number_BS, self._position_BS = ends.cumsum(1) - ends.long(), place - first
        self._ends_BS = ends
        counts = ends.sum(1)
        longest = torch.where(self.mask, self._position_BS, 0).max() + 1 if src_BS.numel() else counts.new_tensor(1)
        sizes: list[int] = [0, 1, 1, 0]
        if src_BS.numel():
            sizes = torch.stack((counts.sum(), longest, counts.max(), self.mask.sum())).tolist()
        self.num_rows, self.longest, self.most, tokens = sizes
        self.counts = counts
        if apart is None:
            by_sentence, by_document = (
                (tokens if packs else rows * width) * linear + rows * width * 2 * width
                for rows, width in ((self.num_rows, self.longest), src_BS.shape)
            )
            apart = by_sentence <= by_document
        self.apart = apart
        self.rows, self.positions, self.row_mask, self.bias = self._by_sentence(src_BS) if apart else self._by_document(src_BS)

    def _by_sentence(self, src_BS: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        row, column = self.sentence, self._position_BS.flatten()[self.document_packing.real]
        rows = src_BS.new_zeros(self.num_rows, self.longest)
        rows[row, column] = src_BS.flatten()[self.document_packing.real]
        mask = torch.zeros_like(rows, dtype=torch.bool)
        mask[row, column] = True
        positions = torch.arange(self.longest, device=rows.device).expand_as(rows)
        return rows, positions, mask, _hide(~mask)[:, None, None, :]

    def _by_document(self, src_BS: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        number = self._number_BS.masked_fill(~self.mask, -1)
        return src_BS, self._position_BS, self.mask, _hide(number[:, :, None] != number[:, None, :])[:, None]

    @cached_property
    def document_packing(self) -> Packing:
        """Of the real tokens, as places in [B, S]."""
        return Packing(self.mask)

    @cached_property
    def sentence(self) -> Tensor:
        """[P]: the sentence (0 .. R - 1) of each real token."""
        ends = self._ends_BS.flatten()[self.document_packing.real]
        return ends.cumsum(0) - ends.long()

    @cached_property
    def ends(self) -> Tensor:
        """[R]: each sentence's last token, as its place among the real tokens."""
        return self._ends_BS.flatten()[self.document_packing.real].nonzero().squeeze(1)

    @cached_property
    def packing(self) -> Packing:
        """Of sentences, as places in [B, N]: what a stack over the sentences of a document unpacks to."""
        return Packing(self.sentence_mask)

    @cached_property
    def sentence_mask(self) -> Tensor:
        """[B, N]: True where a document has a sentence."""
        return torch.arange(max(self.most, 1), device=self.counts.device) < self.counts[:, None]


def _hide(hidden: Tensor) -> Tensor:
    return torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, -1e9)
