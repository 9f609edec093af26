"""Packed rows without padding: the real positions of a padded batch [B, S, D] as [1, P, D]; documents split into sentences.

Shapes: B sentences (or documents), S longest one, P real positions, D width; R sentences of all documents, J longest sentence, N maximum
number of sentences of a document.
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
"""Minimum share of padding of a packed batch; with less padding, packing costs more than it saves."""


def may_pack(device: torch.device) -> bool:
    """Returns whether batches on this device are packed without a layout: a fast path of training on a CPU."""
    return PATHS.packing and device.type == "cpu" and not torch.compiler.is_compiling()


def worth_packing(mask: Tensor) -> "Packing | None":
    """Returns the packing of a batch with much padding; None: little padding. mask: [B, S], True = real."""
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
    """Places of the real positions of a batch. `mask`: [B, S], True = real. `layout`: places computed on the host, if available. Attention
    then reads packed rows directly (`models.attention.attend_rows`). The layout's rows of padding belong to no sentence."""

    def __init__(self, mask: Tensor, layout: Layout | None = None) -> None:
        self.mask, self.shape, self.layout = mask, mask.shape, layout
        self.real = mask.flatten().nonzero().squeeze(1) if layout is None else layout.real

    @cached_property
    def place(self) -> Tensor:
        """Returns the row of each position [B * S]. Padding gets the last row before it."""
        return (self.mask.flatten().cumsum(0) - 1).clamp_(min=0)

    @cached_property
    def padding(self) -> Tensor:
        return (~self.mask.flatten()).nonzero().squeeze(1)

    @cached_property
    def starts(self) -> Tensor:
        """Returns the first row of each sentence, then the number of rows: [B + 1]."""
        return F.pad(self.mask.sum(1).cumsum(0), (1, 0))

    @cached_property
    def row_mask(self) -> Tensor:
        """Returns the mask of the packed rows: [1, P], True = real."""
        if self.layout is not None:
            return self.mask.flatten()[self.real][None]
        return torch.ones(1, len(self.real), dtype=torch.bool, device=self.real.device)

    def without_padding(self, x: Tensor) -> Tensor:
        """Sets x [B * S, D] to zero at padding, in place."""
        if self.layout is not None:
            return x.masked_fill_(~self.mask.flatten()[:, None], 0.0)
        return x.index_fill_(0, self.padding, 0.0)

    def ids(self, ids_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (ids, positions in their sentences) of the packed rows, [1, P] each."""
        return ids_BS.flatten()[self.real][None], (self.real % self.shape[1])[None]

    def pack(self, x_BSD: Tensor) -> Tensor:
        """[B, S, D] -> [1, P, D]"""
        return _Pack.apply(x_BSD.flatten(0, 1), self)[None]

    def unpack(self, x_1PD: Tensor) -> Tensor:
        """[1, P, D] -> [B, S, D]. Padding gets copies of real rows: finite numbers, which a mask must hide."""
        return _Unpack.apply(x_1PD[0], self).view(*self.shape, -1)


class Sentences:
    """Sentences of documents with source ids [B, S]. A sentence ends with EOS; a document's last token ends its last sentence.

    The encoder reads `rows` [R, J], one sentence per row. Real tokens have the same order in rows and documents: packed rows [1, P, D] are
    equal. `ends` [R]: index of each sentence's last token among the real tokens. `sentence` [P]: index of each real token's sentence.
    `sentence_mask` [B, N]: True for real sentences; `packing`: its packing. `document_packing`: packing of the real tokens in [B, S]."""

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
    """Returns [N, max(counts)]: row n is True at its first counts[n] places."""
    return torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
