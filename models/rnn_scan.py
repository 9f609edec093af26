"""A bidirectional RNN's pass over its inputs, padding left out: step t works on the sentences that are longer than t.

Shapes: B sentences, S positions, R rows of the inputs (B * S, or packed), P real positions, d units of a direction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.gru_scan import CELLS
from models.packing import Packing


def reading_order(mask: Tensor) -> Tensor:
    """[2, B, S]: the position read at each step, a sentence's real ones first: from its first to its last, from its last to its first."""
    forward = (~mask).to(torch.int8).argsort(dim=1, stable=True)
    step = torch.arange(mask.shape[1], device=mask.device)
    last = mask.sum(1, keepdim=True) - 1 - step
    return torch.stack((forward, forward.gather(1, torch.where(last >= 0, last, step))))


class ScanSchedule:
    """Which rows each step reads and writes, sentences by falling length. mask [B, S]; packing: the inputs come as its packed rows."""

    def __init__(self, mask: Tensor, packing: Packing | None = None) -> None:
        B, S = mask.shape
        lengths, self.sentences = mask.sum(1).sort(descending=True, stable=True)
        active_SB = lengths > torch.arange(S, device=mask.device)[:, None]
        position = reading_order(mask)[:, self.sentences] + (self.sentences * S)[:, None]
        if packing is not None:
            position = packing.place[position]
        rows = position.transpose(1, 2)[:, active_SB] * 2
        self.rows = torch.stack((rows[0], rows[1] + 1)).flatten()  # [2P] of the inputs' [R, 2]
        counts = active_SB.sum(1)
        self.steps: list[tuple[slice, slice, slice]] = []  # of P; of the states before, after, behind the B first ones
        start, before = 0, 0
        for n in counts.tolist():
            if n:
                self.steps.append((slice(start, start + n), slice(before, before + n), slice(B + start, B + start + n)))
                before, start = B + start, start + n
        self.num_rows = start
        firsts = torch.tensor([step[1].start for step in self.steps], dtype=torch.long, device=mask.device)
        ranks = torch.arange(B, device=mask.device).expand(S, B)[active_SB]
        self.before = firsts.repeat_interleave(counts[: len(firsts)]) + ranks  # [P]


class RnnScan(torch.autograd.Function):
    """(inputs' products [R, 2, 3d], first states [2, B, d], weight [2, 3d, d], bias, schedule, kind) -> states [R, 2d], 0 at padding."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None, schedule: ScanSchedule, kind: str) -> Tensor:
        d, P, B = h.shape[-1], schedule.num_rows, h.shape[1]
        flat = a.reshape(-1, 3 * d)
        gates, candidate = (part.index_select(0, schedule.rows).view(2, P, -1) for part in (flat[:, : 2 * d], flat[:, 2 * d :]))
        cell = CELLS[kind](gates, candidate, weight, bias)
        states = h.new_empty(2, B + P, d)
        states[:, :B] = h.index_select(1, schedule.sentences)
        for at, before, after in schedule.steps:
            cell.step(at, states[:, before], states[:, after])
        ctx.cell, ctx.states, ctx.schedule, ctx.shape = cell, states, schedule, a.shape
        out = h.new_zeros(len(flat), d).index_copy_(0, schedule.rows, states[:, B:].flatten(0, 1))
        return out.view(-1, 2 * d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grad.device.type, enabled=False):
            return _backward(ctx.cell, ctx.states, ctx.schedule, ctx.shape, grad)


def _backward(cell: Any, states: Tensor, schedule: ScanSchedule, shape: torch.Size, grad: Tensor) -> tuple[Tensor | None, ...]:
    d, P = states.shape[-1], schedule.num_rows
    dh = grad.new_zeros(2, len(schedule.sentences), d)
    grad = grad.reshape(-1, d).index_select(0, schedule.rows).view(2, P, d)
    cell.begin(states.index_select(1, schedule.before))
    for at, _, _ in reversed(schedule.steps):
        dh_n = dh[:, : at.stop - at.start].add_(grad[:, at])
        cell.back(at, dh_n)
    d_flat = grad.new_zeros(shape.numel() // (3 * d), 3 * d)
    d_flat.index_copy_(0, schedule.rows, torch.cat((cell.d_gates, cell.d_candidate), dim=-1).flatten(0, 1))
    d_first = torch.empty_like(dh).index_copy_(1, schedule.sentences, dh)
    return d_flat.view(shape), d_first, *cell.weight_gradients(), None, None
