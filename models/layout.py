"""Layouts of packed rows, computed on the host: training never waits for the GPU, and captured graphs see few shapes.

Shapes: B sentences, S longest sentence, P packed rows, N sentences of the packed rows, including empty sentences and sentences of padding.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

PAD = 0


class Layout(NamedTuple):
    """Layout of one side of a batch. real: [P] int64, place of each row in the flattened [B, S]. starts: [N + 1] int32, the first row of
    each sentence, then the number of rows. longest: an upper bound of the sentence lengths."""

    real: Tensor
    starts: Tensor
    longest: int


class Shape(NamedTuple):
    """Common shape of both sides of a batch: P, N, and the length of the longest of the N sentences, which is also S."""

    rows: int
    sentences: int
    longest: int


ROWS, SENTENCES, LONGEST = 2048, 64, 16
"""P is a multiple of ROWS. N and the longest length are powers of 2, at least SENTENCES and LONGEST."""


def layouts(src_BS: Tensor, tgt_BT: Tensor) -> tuple[Layout, Layout]:
    """Returns the layouts of both sides, with only real positions. `longest` is rounded up, because code is compiled for its value."""
    return _layout(src_BS, _lengths(src_BS)), _layout(tgt_BT, _lengths(tgt_BT))


def shape_of(src_BS: Tensor, tgt_BT: Tensor) -> Shape:
    """Returns the smallest shape that holds a batch. On each side every sentence of padding has at least one row (see `shaped`)."""
    lengths = _lengths(src_BS), _lengths(tgt_BT)
    longest = _power_of_2(max(int(one.max()) for one in lengths), LONGEST)
    least, most = sorted(int(one.sum()) for one in lengths)
    rows = most // ROWS * ROWS + ROWS
    while (padding := -(-(rows - least) // longest)) > rows - most:
        rows += ROWS
    return Shape(rows, _power_of_2(len(src_BS) + padding, SENTENCES), longest)


def shaped(shape: Shape, src_BS: Tensor, *tgts_BT: Tensor) -> tuple[list[Tensor], tuple[Layout, Layout]]:
    """Returns (all ids, padded to the shape; both layouts with P rows). Rows without a sentence form sentences of padding. These have the
    same indices on both sides, so padding attends only to padding."""
    ids = [F.pad(one, (0, shape.longest - one.shape[1], 0, shape.sentences - len(one)), value=PAD) for one in (src_BS, *tgts_BT)]
    lengths = [_lengths(one)[: len(src_BS)] for one in ids[:2]]
    more = -(-(shape.rows - min(int(one.sum()) for one in lengths)) // shape.longest)
    src, tgt = (_layout(one, of_one, shape, more) for one, of_one in zip(ids, lengths, strict=False))
    return ids, (src, tgt)


def _layout(ids_BS: Tensor, lengths: Tensor, shape: Shape | None = None, more: int = 0) -> Layout:
    """Returns one side's layout. more: number of sentences of padding that fill the shape's rows."""
    flat = ids_BS.flatten()
    real, longest = (flat != PAD).nonzero().squeeze(1), _power_of_2(int(lengths.max()), LONGEST)
    if shape is not None:
        padding, longest = shape.rows - len(real), shape.longest
        real = F.pad(real, (0, padding), value=len(flat) - 1)  # the last place is padding
        lengths = torch.cat((lengths, padding // more + (torch.arange(more) < padding % more).long()))
        lengths = F.pad(lengths, (0, shape.sentences - len(lengths)))
    return Layout(real, F.pad(lengths.cumsum(0), (1, 0)).int(), longest)


def _lengths(ids_BS: Tensor) -> Tensor:
    return (ids_BS != PAD).sum(1)


def _power_of_2(number: int, least: int) -> int:
    return max(least, 1 << (number - 1).bit_length())
