"""Attention within short sentences of packed rows, in Triton. One program holds all scores of one sentence and head.

Flash attention works on blocks for long sentences. With sentences of 20 words it spends most of its time on empty places of its blocks and
on sums across blocks. These kernels read only queries, keys and values. The backward pass computes the weights again and is deterministic.

Shapes: P query rows, R key rows, H heads, K width of a head; in a program T queries, S keys (blocks, powers of 2).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from models.layout import Layout

LONGEST = 128
"""Maximum rows of a sentence: its scores must fit into a multiprocessor's registers."""


@triton.jit
def _weights(q_TK, k_SK, rows_T, cols_S, k_len, scale, causal: tl.constexpr):  # type: ignore[no-untyped-def]
    s_TS = tl.dot(q_TK, tl.trans(k_SK)) * scale
    seen_TS = (cols_S < k_len)[None, :] & (rows_T >= 0)[:, None]
    if causal:
        seen_TS = seen_TS & (cols_S[None, :] <= rows_T[:, None])
    s_TS = tl.where(seen_TS, s_TS, float("-inf"))
    top_T = tl.max(s_TS, 1)
    e_TS = tl.exp(s_TS - tl.where(top_T == float("-inf"), 0.0, top_T)[:, None])
    total_T = tl.sum(e_TS, 1)
    return e_TS / tl.where(total_T == 0.0, 1.0, total_T)[:, None]


@triton.jit
def _kept(seed, n, h, heads, rows_T, cols_S, p, T: tl.constexpr, S: tl.constexpr):  # type: ignore[no-untyped-def]
    place_TS = ((n * heads + h) * T + rows_T)[:, None] * S + cols_S[None, :]
    return tl.rand(tl.load(seed), place_TS) >= p


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    q, k, v, z, q_starts, k_starts, seed, q_step, k_step, v_step, heads, scale, p,
    K: tl.constexpr, KB: tl.constexpr, T: tl.constexpr, S: tl.constexpr, causal: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    n, h = tl.program_id(0), tl.program_id(1)
    q_0, k_0 = tl.load(q_starts + n), tl.load(k_starts + n)
    q_len, k_len = tl.load(q_starts + n + 1) - q_0, tl.load(k_starts + n + 1) - k_0
    if q_len == 0:
        return
    rows_T, cols_S, d_K = tl.arange(0, T), tl.arange(0, S), tl.arange(0, KB)
    q_mask, k_mask = (rows_T < q_len)[:, None] & (d_K < K)[None, :], (cols_S < k_len)[:, None] & (d_K < K)[None, :]
    q_TK = tl.load(q + (q_0 + rows_T).to(tl.int64)[:, None] * q_step + h * K + d_K[None, :], mask=q_mask, other=0.0)
    k_SK = tl.load(k + (k_0 + cols_S).to(tl.int64)[:, None] * k_step + h * K + d_K[None, :], mask=k_mask, other=0.0)
    v_SK = tl.load(v + (k_0 + cols_S).to(tl.int64)[:, None] * v_step + h * K + d_K[None, :], mask=k_mask, other=0.0)
    w_TS = _weights(q_TK, k_SK, rows_T, cols_S, k_len, scale, causal)
    if drops:
        w_TS = tl.where(_kept(seed, n, h, heads, rows_T, cols_S, p, T, S), w_TS / (1.0 - p), 0.0)
    z_TK = tl.dot(w_TS.to(v_SK.dtype), v_SK)
    tl.store(z + (q_0 + rows_T).to(tl.int64)[:, None] * (heads * K) + h * K + d_K[None, :], z_TK.to(v_SK.dtype), mask=q_mask)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    q, k, v, dz, dq, dk, dv, q_starts, k_starts, seed, q_step, k_step, v_step, dz_step, heads, scale, p,
    K: tl.constexpr, KB: tl.constexpr, T: tl.constexpr, S: tl.constexpr, causal: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    n, h = tl.program_id(0), tl.program_id(1)
    q_0, k_0 = tl.load(q_starts + n), tl.load(k_starts + n)
    q_len, k_len = tl.load(q_starts + n + 1) - q_0, tl.load(k_starts + n + 1) - k_0
    if q_len + k_len == 0:
        return
    rows_T, cols_S, d_K = tl.arange(0, T), tl.arange(0, S), tl.arange(0, KB)
    q_mask, k_mask = (rows_T < q_len)[:, None] & (d_K < K)[None, :], (cols_S < k_len)[:, None] & (d_K < K)[None, :]
    q_rows, k_rows = (q_0 + rows_T).to(tl.int64)[:, None], (k_0 + cols_S).to(tl.int64)[:, None]
    q_TK = tl.load(q + q_rows * q_step + h * K + d_K[None, :], mask=q_mask, other=0.0)
    k_SK = tl.load(k + k_rows * k_step + h * K + d_K[None, :], mask=k_mask, other=0.0)
    v_SK = tl.load(v + k_rows * v_step + h * K + d_K[None, :], mask=k_mask, other=0.0)
    dz_TK = tl.load(dz + q_rows * dz_step + h * K + d_K[None, :], mask=q_mask, other=0.0)
    w_TS = _weights(q_TK, k_SK, rows_T, cols_S, k_len, scale, causal)
    dw_TS = tl.dot(dz_TK, tl.trans(v_SK))
    used_TS = w_TS
    if drops:
        kept_TS = _kept(seed, n, h, heads, rows_T, cols_S, p, T, S)
        used_TS = tl.where(kept_TS, w_TS / (1.0 - p), 0.0)
        dw_TS = tl.where(kept_TS, dw_TS / (1.0 - p), 0.0)
    dv_SK = tl.dot(tl.trans(used_TS).to(dz_TK.dtype), dz_TK)
    ds_TS = (w_TS * (dw_TS - tl.sum(w_TS * dw_TS, 1)[:, None]) * scale).to(k_SK.dtype)
    own, read = q_rows * (heads * K) + h * K + d_K[None, :], k_rows * (heads * K) + h * K + d_K[None, :]
    tl.store(dq + own, tl.dot(ds_TS, k_SK).to(q_TK.dtype), mask=q_mask)
    tl.store(dk + read, tl.dot(tl.trans(ds_TS), q_TK).to(k_SK.dtype), mask=k_mask)
    tl.store(dv + read, dv_SK.to(v_SK.dtype), mask=k_mask)


def _blocks(q: Tensor, longest_q: int, longest_k: int) -> dict[str, Any]:
    """Returns the sizes of a program. Registers hold three blocks of scores, so a warp gets at most 2,048 scores of each block."""
    T, S = (max(16, triton.next_power_of_2(longest)) for longest in (longest_q, longest_k))
    return {"K": q.shape[2], "KB": max(16, triton.next_power_of_2(q.shape[2])), "T": T, "S": S, "num_warps": min(8, max(1, T * S // 1024))}


def _dense(x: Tensor) -> Tensor:
    """Returns x with its heads contiguous in each row."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


@torch.library.custom_op("nmt::short_attention", mutates_args=())
def _attend(
    q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, longest_q: int, longest_k: int, p: float, causal: bool
) -> tuple[Tensor, Tensor]:
    """Returns (attention z, seed of its dropout)."""
    q, k, v = _dense(q), _dense(k), _dense(v)
    z = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    # drawn on the device from torch's generator, so a replayed graph draws a new seed
    seed = torch.randint(2**31 - 1, (1,), device=q.device, dtype=torch.int32) if p > 0.0 else q_starts.new_empty(1)
    _forward[len(q_starts) - 1, q.shape[1]](
        q, k, v, z, q_starts, k_starts, seed, q.stride(0), k.stride(0), v.stride(0), q.shape[1], q.shape[2] ** -0.5, p,
        causal=causal, drops=p > 0.0, **_blocks(q, longest_q, longest_k),
    )  # fmt: skip
    return z, seed


@_attend.register_fake
def _(q, k, v, q_starts, k_starts, longest_q, longest_k, p, causal):  # type: ignore[no-untyped-def]
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), q_starts.new_empty(1)


@torch.library.custom_op("nmt::short_attention_backward", mutates_args=())
def _attend_backward(
    dz: Tensor, q: Tensor, k: Tensor, v: Tensor, q_starts: Tensor, k_starts: Tensor, seed: Tensor, longest_q: int, longest_k: int, p: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    q, k, v, dz = _dense(q), _dense(k), _dense(v), _dense(dz)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    _backward[len(q_starts) - 1, q.shape[1]](
        q, k, v, dz, dq, dk, dv, q_starts, k_starts, seed, q.stride(0), k.stride(0), v.stride(0), dz.stride(0), q.shape[1],
        q.shape[2] ** -0.5, p, causal=causal, drops=p > 0.0, **_blocks(q, longest_q, longest_k),
    )  # fmt: skip
    return dq, dk, dv


@_attend_backward.register_fake
def _(dz, q, k, v, q_starts, k_starts, seed, longest_q, longest_k, p, causal):  # type: ignore[no-untyped-def]
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, q_starts, k_starts, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, q_starts, k_starts, output[1])
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, dz: Tensor, _: Tensor) -> tuple[Any, ...]:
    dq, dk, dv = torch.ops.nmt.short_attention_backward(dz, *ctx.saved_tensors, *ctx.options)
    return dq, dk, dv, None, None, None, None, None, None


_attend.register_autograd(_gradients, setup_context=_keep)


def attend_short(q: Tensor, k: Tensor, v: Tensor, own: Layout, read: Layout, p: float, *, causal: bool) -> Tensor:
    """Computes `models.attention.attend_rows` for sentences of at most LONGEST rows: [P, H, K], [R, H, K] x 2 -> [P, H, K]."""
    z: Tensor = torch.ops.nmt.short_attention(q, k, v, own.starts, read.starts, own.longest, read.longest, p, causal)[0]
    return z
