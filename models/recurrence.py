"""Recurrence over the source: a bidirectional RNN and an attentive RNN (Hao et al. 2019, section 3), as scans with hand-written gradients.

Step t processes only the sentences with more than t tokens. Shapes: B sentences, S positions, R input rows (B * S, or packed), P real
positions, T steps, n sentences of a step, D input width, d units per direction; a leading 2 is the directions. `mask` [B, S]: True = real.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.gru import Cell, Gru, add_product
from models.packing import Packing
from models.site import Site


def reading_order(mask: Tensor) -> Tensor:
    """Returns the position that each direction reads at each step: [2, B, S]. Real positions come first: forwards, then backwards."""
    forward = (~mask).to(torch.int8).argsort(dim=1, stable=True)
    step = torch.arange(mask.shape[1], device=mask.device)
    last = mask.sum(1, keepdim=True) - 1 - step
    return torch.stack((forward, forward.gather(1, torch.where(last >= 0, last, step))))


class ScanSchedule:
    """Rows that each step reads and writes, with sentences in order of decreasing length. mask [B, S]; packing: inputs are packed rows."""

    def __init__(self, mask: Tensor, packing: Packing | None = None) -> None:
        B, S = mask.shape
        lengths, self.sentences = mask.sum(1).sort(descending=True, stable=True)
        active_SB = lengths > torch.arange(S, device=mask.device)[:, None]
        position = reading_order(mask)[:, self.sentences] + (self.sentences * S)[:, None]
        if packing is not None:
            position = packing.place[position]
        rows = position.transpose(1, 2)[:, active_SB] * 2
        self.rows = torch.stack((rows[0], rows[1] + 1)).flatten()  # [2P], indices of the flattened inputs [R, 2]
        counts = active_SB.sum(1)
        self.steps: list[tuple[slice, slice, slice]] = []  # slices of the P rows, and of the B + P states before and after
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
    """(inputs' products [R, 2, 3d], first states [2, B, d], weight [2, 3d, d], schedule) -> states [R, 2d], 0 at padding."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, h: Tensor, weight: Tensor, schedule: ScanSchedule) -> Tensor:
        d, P, B = h.shape[-1], schedule.num_rows, h.shape[1]
        flat = a.reshape(-1, 3 * d)
        gates, candidate = (part.index_select(0, schedule.rows).view(2, P, -1) for part in (flat[:, : 2 * d], flat[:, 2 * d :]))
        cell = Cell(gates, candidate, weight)
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
            return _rnn_backward(ctx.cell, ctx.states, ctx.schedule, ctx.shape, grad)


def _rnn_backward(cell: Cell, states: Tensor, schedule: ScanSchedule, shape: torch.Size, grad: Tensor) -> tuple[Tensor | None, ...]:
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
    return d_flat.view(shape), d_first, cell.weight_gradient(), None


LARGEST = 80.0
"""Largest exponent. Without it powers could be 0 or infinite, and their product NaN. tanh is 1 long before 40."""


def powers(x: Tensor) -> Tensor:
    return x.clamp_(-LARGEST, LARGEST).exp_()


def halved(keys_nSd: Tensor, queries_2nd: Tensor, buffer: Tensor) -> Tensor:
    """Returns (1 + tanh(q + k)) / 2 of every pair: [2, n, S, d], stored in the buffer. keys, queries: exp(-2k), exp(-2q)."""
    out = buffer[: 2 * keys_nSd.numel()].view(2, *keys_nSd.shape)
    return torch.addcmul(keys_nSd.new_ones(()), keys_nSd, queries_2nd[:, :, None], out=out).reciprocal_()


class ArnScan(torch.autograd.Function):
    """c = sum_j softmax_j(v tanh(q + k_j) + bias_j) x_j, q = W_q h; a = W c + b; h' = GRU(a, h); -> states [2, T, B, d].
    active: number of sentences in each step, which are the first ones. Slots of the other sentences hold zeros.
    tanh(q + k) = 2s - 1 with s = 1 / (1 + exp(-2q) exp(-2k)) and derivative 4 s (1 - s). This needs one exponential per q and per k, none
    per pair. The constant term of the scores cancels in the softmax. Its gradient is 0, since the gradients of the scores sum to 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,  # [B, S, D]
        keys: Tensor,  # [B, S, d]
        bias: Tensor,  # [B, S]
        h: Tensor,  # [2, B, d]
        query: Tensor,  # [d, d]
        v: Tensor,  # [d]
        weight: Tensor,  # [2, 3d, D]
        offset: Tensor,  # [2, 3d]
        state_weight: Tensor,  # [2, 3d, d]
        active: list[int],
    ) -> Tensor:
        (B, S, D), d, T = x.shape, h.shape[-1], len(active)
        gates, candidate, states = h.new_zeros(2, T * B, 2 * d), h.new_zeros(2, T * B, d), h.new_zeros(2, (T + 1) * B, d)
        cell = Cell(gates, candidate, state_weight)
        states[:, :B] = h
        keys = powers(-2.0 * keys)
        of_query, of_input, twice_v = (-2.0 * query).T, weight.mT.contiguous(), (2.0 * v)[:, None]
        queries, found = torch.zeros_like(candidate), h.new_zeros(2, T * B, D)
        weights = h.new_zeros(B, T, 2, S)
        energy = h.new_empty(2 * B * S * d)
        for t, n in enumerate(active):
            if n == 0:
                break
            at = slice(t * B, t * B + n)
            queries[:, at] = powers(states[:, at] @ of_query)
            s = halved(keys[:n], queries[:, at], energy)
            scores = (s @ twice_v).squeeze(-1).add_(bias[:n])
            weights[:n, t] = scores.softmax(-1).transpose(0, 1)
            c = found[:, at].copy_(torch.bmm(weights[:n, t], x[:n]).transpose(0, 1))
            a = torch.baddbmm(offset[:, None], c, of_input)
            gates[:, at], candidate[:, at] = a[..., : 2 * d], a[..., 2 * d :]
            cell.step(at, states[:, at], states[:, at.start + B : at.stop + B])
        ctx.save_for_backward(x, query, v, weight)
        ctx.kept = (cell, states, keys, queries, found, weights)
        ctx.active = active
        return states[:, B:].view(2, T, B, d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(grad.device.type, enabled=False):
            return _arn_backward(ctx, grad)


def _arn_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, query, v, weight = ctx.saved_tensors
    cell, states, keys, queries, found, weights = ctx.kept
    (B, S, D), d = x.shape, states.shape[-1]
    before = states[:, : states.shape[1] - B]
    cell.begin(before)
    dh, d_queries = grad.new_zeros(2, B, d), torch.zeros_like(queries)
    d_found, d_keys, d_v = (
        torch.zeros_like(weights[..., :1]).expand(-1, -1, -1, D).contiguous(),
        torch.zeros_like(keys),
        torch.zeros_like(v),
    )
    energy = grad.new_empty(2 * B * S * d)
    slope = 4.0 * v
    for t in reversed(range(len(ctx.active))):
        n, at = ctx.active[t], slice(t * B, t * B + ctx.active[t])
        if n == 0:
            continue
        dh_n = dh[:, :n].add_(grad[:, t, :n])
        cell.back(at, dh_n)
        d_c = add_product(torch.bmm(cell.d_gates[:, at], weight[:, : 2 * d]), cell.d_candidate[:, at], weight[:, 2 * d :])
        d_found[:n, t] = d_c.transpose(0, 1)
        d_weights = torch.bmm(d_found[:n, t], x[:n].mT)
        d_scores = torch._softmax_backward_data(d_weights, weights[:n, t], -1, x.dtype).transpose(0, 1).reshape(2 * n, 1, S)
        s = halved(keys[:n], queries[:, at], energy).view(2 * n, S, d)
        d_v += torch.bmm(d_scores, s).sum((0, 1))
        torch.addcmul(s, s, s, value=-1.0, out=s)
        d_q = torch.mul(torch.bmm(d_scores, s).view(2, n, d), slope, out=d_queries[:, at])
        dh_n += d_q @ query
        for s_k, part in zip(s.split(n), d_scores.view(2, n, S, 1), strict=True):
            d_keys[:n].addcmul_(s_k, part)
    d_a = torch.cat((cell.d_gates, cell.d_candidate), dim=-1)
    d_x = torch.bmm(weights.flatten(1, 2).mT, d_found.flatten(1, 2))
    d_query = torch.bmm(d_queries.mT, before).sum(0)
    d_weight = torch.bmm(d_a.mT, found)
    return d_x, d_keys.mul_(slope), None, dh, d_query, 2.0 * d_v, d_weight, d_a.sum(1), cell.weight_gradient(), None


def mean_states(x_BSD: Tensor, mask: Tensor, d: int) -> Tensor:
    """Returns first states [2, B, d]: the mean over a sentence's real positions. A mean of width 2d is split between the directions."""
    weight = mask.to(x_BSD.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    mean = torch.bmm(weight[:, None], x_BSD).squeeze(1)
    return (mean.unflatten(1, (-1, d)) if mean.shape[1] > d else mean[:, None].expand(-1, 2, -1)).transpose(0, 1)


def _single(*tensors: Tensor) -> list[Tensor]:
    """Converts tensors to fp32: states stay fp32 if the maps around them run in half precision (autocast)."""
    return [t.float() if t.dtype in (torch.bfloat16, torch.float16) else t for t in tensors]


class BiRnn(nn.Module):
    """h_j = [f_j; b_j]: f reads from left to right, b from right to left, over real positions.
    `start`: the first states are the mean of the inputs, or 0."""

    def __init__(self, site: Site, d_input: int, *, start: Literal["mean", "zero"] = "mean") -> None:
        super().__init__()
        self.d, self.start = site.d_model, start
        self.gru = Gru(site, d_input)

    def forward(self, x: Tensor, mask: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """[B, S, D], or packed rows [1, P, D] -> (states of width 2d in the same form, mask). States at padding are zeros."""
        if self.start == "zero":
            h = x.new_zeros(2, len(mask), self.d)
        else:
            h = mean_states(x if packing is None else packing.unpack(x), mask, self.d)
        a = self.gru.products(x)
        with torch.autocast(x.device.type, enabled=False):
            parts = _single(a, h, self.gru.state)
            return RnnScan.apply(*parts, ScanSchedule(mask, packing)).view(*x.shape[:-1], -1), mask


class BiArn(nn.Module):
    """Attentive RNN: at each step both chains attend to the inputs and read the result (Hao et al. 2019, Eq. 9-13).

    h_t = GRU_f(Att(h_{t-1}), h_{t-1}), t = 1..T; g_t = GRU_b(Att(g_{t+1}), g_{t+1}), t = T..1; slot t = [h_t; g_t]
    Att(s) = sum_j softmax_j(v tanh(W_q s + W_k x_j)) x_j, the same for both directions (additive, Bahdanau et al. 2015).
    `steps` "J": a sentence has as many steps as inputs.
    """

    def __init__(self, site: Site, d_input: int, steps: int | str) -> None:
        super().__init__()
        self.d, self.steps = site.d_model, steps
        self.gru = Gru(site, d_input)
        self.query = nn.Linear(site.d_model, site.d_model, bias=False)
        self.key = nn.Linear(d_input, site.d_model, bias=False)
        self.score = nn.Linear(site.d_model, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """[B, S, D] -> (slots [B, T, 2d], mask [B, T]). Slots beyond a sentence's steps hold zeros."""
        h, keys = mean_states(x, mask, self.d), self.key(x)
        bias = torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_fill(~mask, -1e9)
        if self.steps == "J":
            lengths, order = mask.sum(1).sort(descending=True, stable=True)
            active = (lengths > torch.arange(mask.shape[1], device=mask.device)[:, None]).sum(1).tolist()
            states = self._scan(x[order], keys[order], bias[order], h[:, order], active)[:, :, order.argsort()]
        else:
            states = self._scan(x, keys, bias, h, [len(mask)] * int(self.steps))
        forward, backward = states.transpose(1, 2)
        if self.steps != "J":
            return torch.cat((forward, backward.flip(1)), -1), mask.new_ones(len(mask), states.shape[1])
        last = mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1], device=mask.device)
        slots = last >= 0
        backward = backward.gather(1, last.clamp(min=0)[..., None].expand_as(backward))
        return torch.cat((forward, backward), -1) * slots[..., None], slots

    def _scan(self, x: Tensor, keys: Tensor, bias: Tensor, h: Tensor, active: list[int]) -> Tensor:
        """Returns the states [2, T, B, d]."""
        gru = self.gru
        with torch.autocast(x.device.type, enabled=False):
            parts = _single(x, keys, bias, h, self.query.weight, self.score.weight[0], gru.input, gru.input_offset())
            return ArnScan.apply(*parts, gru.state, active)
