"""The largest values of long rows, ties broken exactly."""

from __future__ import annotations

import torch
from torch import Tensor

NEVER = float("-inf")
BLOCK = 64  # columns of which only the largest is looked at first


def best_of_rows(value_NV: Tensor, count: int, *, exact: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` or a few more largest of each row with their columns, [N, C] each; of equal values the lower column comes first.

    The third value is 1 where a tie reaches over the end of a list, so that its last columns are arbitrary; never with `exact`.
    """
    kept = min(count + 2, value_NV.shape[1])
    value, column = _largest(value_NV, kept)
    cut = value[:, -1]
    tied = torch.zeros_like(cut, dtype=torch.bool)
    if exact:  # the smallest value may stand in many columns: the lowest of them belong to the list
        place = torch.arange(value_NV.shape[1], device=value_NV.device, dtype=torch.float64 if value_NV.shape[1] > 2**24 else torch.float32)
        lowest, other = _largest(torch.where(value_NV == cut[:, None], -place, NEVER), kept)
        value = torch.cat((value.masked_fill(value == cut[:, None], NEVER), cut[:, None].where(lowest > NEVER, NEVER)), dim=1)
        column = torch.cat((column, other), dim=1)
    elif kept > count:
        tied = (cut == value[:, count - 1]) & (cut > NEVER)
    column, order = column.sort(dim=1)
    value, order = value.gather(1, order).sort(dim=1, descending=True, stable=True)
    return value[:, :kept], column.gather(1, order)[:, :kept], tied.any().long()


def _largest(value_NV: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """topk, of which a CPU need not look at every value: the `kept` largest lie in the `kept` blocks with the largest maxima.

    Equal maxima change nothing that matters: a block that is left out has no value above the smallest returned.
    """
    blocks = value_NV.shape[1] // BLOCK
    if value_NV.device.type != "cpu" or blocks < 4 * kept:
        return value_NV.topk(kept, dim=1)
    whole, rest = value_NV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)), value_NV[:, blocks * BLOCK :]
    chosen = whole.amax(2).topk(kept, dim=1, sorted=False).indices[:, :, None]
    candidates = whole.gather(1, chosen.expand(-1, -1, BLOCK)).flatten(1)
    columns = (chosen * BLOCK + torch.arange(BLOCK, device=chosen.device)).flatten(1)
    if rest.shape[1]:
        candidates = torch.cat((candidates, rest), dim=1)
        last = torch.arange(blocks * BLOCK, value_NV.shape[1], device=chosen.device)
        columns = torch.cat((columns, last.expand(len(columns), -1)), dim=1)
    value, place = candidates.topk(kept, dim=1)
    return value, columns.gather(1, place)
