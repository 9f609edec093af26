"""Training speed: target tokens/s, padding share and MFU, with the fast paths on and off in turns.

    python benchmarks/train.py [--d-model 256] [--layers 3] [--precision bf16] [--threads 1] [--repeats 3] [--json]

Text: the built-in toy language. `plain` is the same loop with torch's default matmul backend, dropout and loss. A time is the best of its
repeats'
medians; the spread over repeats is printed beside it. MFU: floating-point operations of the step (counted by torch, times the share of real
tokens) per second, over the rate of a large matrix product measured in the same run in the same precision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from machine import describe, matmul_gflops  # noqa: E402

from models import build, count_parameters  # noqa: E402
from models.dropout import Dropout  # noqa: E402
from orchestrator import cpu  # noqa: E402
from orchestrator.data.prepare import prepare  # noqa: E402
from orchestrator.feed import Feed, Update  # noqa: E402
from orchestrator.objective import Objective, Share  # noqa: E402
from orchestrator.optim import adam, set_rate  # noqa: E402
from orchestrator.spec import BatchSpec, DataSpec, OptimSpec, Subword  # noqa: E402


class PlainLoss(torch.nn.Module):
    """The objective as a plain torch loop writes it: all logits, then cross entropy with label smoothing."""

    def __init__(self, model: torch.nn.Module, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, src: torch.Tensor, tgt_in: torch.Tensor, tgt_out: torch.Tensor, share: Share) -> tuple[torch.Tensor, dict[str, Any]]:
        logits = self.model.logits(self.model(src, tgt_in).hidden)
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), tgt_out.flatten(), ignore_index=0, label_smoothing=self.smoothing, reduction="sum"
        )
        return loss / share.tgt_tokens, {}


def step(objective: torch.nn.Module, optimizer: torch.optim.Optimizer, update: Update, precision: str) -> None:
    optimizer.zero_grad(set_to_none=True)
    for batch in update.micro:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss, _ = objective(batch.src, batch.tgt_in, batch.tgt_out, Share(update.src_tokens, update.tgt_tokens, 1.0))
            loss.backward()
    optimizer.step()


def switch(fast: bool) -> None:
    Dropout.fast = fast
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if fast and cpu.matmul_path() == "onednn" else "none"


def measure(args: argparse.Namespace) -> dict[str, Any]:
    cpu.use(args.threads)
    data = DataSpec(corpus=args.corpus, subword=Subword(kind="bpe", size=args.vocab, joint=True))
    prepared = prepare(data, None, Path(args.cache or tempfile.mkdtemp()))
    feed = Feed(prepared.pairs("train"), BatchSpec(unit="tokens", size=args.batch), seed=1)
    updates = [update for update, _ in zip(feed.updates(0, 0), range(args.steps + 2), strict=False)]
    stack = {"num_layers": args.layers}
    config = {
        "d_model": args.d_model,
        "d_ff": 4 * args.d_model,
        "num_heads": args.d_model // 64,
        "norm": "pre",
        "embeddings": "three-way",
        "dropout": {"embedding": 0.1, "residual": 0.1, "attention": 0.0, "ffn": 0.1},
        "encoder": stack,
        "decoder": stack,
    }
    loops = {}
    for name in ("fast", "plain"):
        model = build(config, prepared.src_size, prepared.tgt_size).train()
        optimizer = adam(model, OptimSpec()) if name == "fast" else torch.optim.Adam(model.parameters())
        set_rate(optimizer, 1e-4)
        loops[name] = ((Objective if name == "fast" else PlainLoss)(model, 0.1), optimizer)
    params = count_parameters(model)
    counter = FlopCounterMode(display=False)
    with counter:
        step(*loops["fast"], updates[0], "fp32")
    flops_per_padded = counter.get_total_flops() / updates[0].padded_tokens
    real = sum(u.src_tokens + u.tgt_tokens for u in updates[2:]) / sum(u.padded_tokens for u in updates[2:])
    switch(True)
    peak = matmul_gflops(args.precision)
    rates: dict[str, list[float]] = {"fast": [], "plain": []}
    for _ in range(args.repeats):
        for name, (objective, optimizer) in loops.items():
            switch(name == "fast")
            seconds = []
            for i, update in enumerate(updates):
                started = time.perf_counter()
                step(objective, optimizer, update, args.precision)
                if i >= 2:
                    seconds.append((time.perf_counter() - started) / update.tgt_tokens)
            rates[name].append(1.0 / statistics.median(seconds))
    switch(True)
    per_target = sum(u.padded_tokens for u in updates[2:]) / sum(u.tgt_tokens for u in updates[2:])
    result = {
        "benchmark": "train",
        "params": params,
        "precision": args.precision,
        "batch_tokens": args.batch,
        "padding_share": round(1 - real, 4),
        "matmul_gflops": round(peak, 1),
        "machine": describe(),
        "matmul_path": cpu.matmul_path(),
    }
    for name, values in rates.items():
        best = max(values)
        result[name] = {
            "tokens_per_second": round(best, 1),
            "spread": [round(v, 1) for v in values],
            "mfu": round(best * per_target * real * flops_per_padded / 1e9 / peak, 3),
        }
    result["ratio"] = round(max(rates["fast"]) / max(rates["plain"]), 3)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--vocab", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--corpus", default="toy-quickstart")
    parser.add_argument("--cache", default=".data-cache")
    parser.add_argument("--json", action="store_true")
    result = measure(parser.parse_args())
    if "--json" in sys.argv:
        print(json.dumps(result))
        return
    print(f"{result['params']:,} parameters, {result['precision']}, batches of {result['batch_tokens']} tokens")
    print(f"padding: {result['padding_share']:.1%} of all positions")
    print(f"matrix products: {result['matmul_gflops']} GFLOP/s on {result['machine']['threads']} thread(s)")
    print(f"path: {result['matmul_path']}")
    for name in ("fast", "plain"):
        r = result[name]
        print(f"{name:6} {r['tokens_per_second']:9.1f} target tokens/s   MFU {r['mfu']:.1%}   repeats {r['spread']}")
    print(f"ratio  {result['ratio']:9.3f}")


if __name__ == "__main__":
    main()
