"""Documents as their sentences: an encoder that sees one sentence at a time, whose positions start again with each.

Shapes: B documents, S longest document, R sentences of all of them, J longest sentence, N most sentences of a document, P real tokens.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from models.packing import Packing

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
