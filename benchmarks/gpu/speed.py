"""Training and decoding speed on a CUDA device, ours and plain torch's (benchmarks/plain.py), in one process without Ray.

    python benchmarks/gpu/speed.py                                # base and small; reports if there is no CUDA device
    python benchmarks/gpu/speed.py --device cpu --size tiny       # the same code on a CPU, as a check that it runs

Training: bf16 autocast, updates of --batch-tokens padded target tokens prepared in advance, each of FORMS against the one before it and
plain torch beside them, interleaved A,B,A,B. tok/s counts real target tokens. MFU: useful operations (benchmarks/flops.py) over the bf16
matrix rate measured in the same run. kernels: of one update, by kind, with their share of its time (torch.profiler); busy: share of the
update in which a kernel ran. Decoding: greedy and beam 5, outputs of 32 tokens, batches of 64 and 256 sentences. Figures are medians of
rounds. Published figures are printed for comparison; they were measured on other machines, texts and sizes.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent)]

from flops import training_per_target_token  # noqa: E402
from plain import PlainTransformer  # noqa: E402
from plain import beam_search as plain_beam_search  # noqa: E402
from plain import loss as plain_loss  # noqa: E402
from sizes import DROPOUT, SIZES, Pair, Size, text  # noqa: E402
from training_step import TrainingStep, in_form, updates_of  # noqa: E402

from models.inference import prepared  # noqa: E402
from models.transformer import build  # noqa: E402
from orchestrator.data.subword import EOS  # noqa: E402
from orchestrator.decoding.beam import beam_search  # noqa: E402
from orchestrator.decoding.translate import FullLength, pad  # noqa: E402
from orchestrator.specs.schema import DecodeSpec  # noqa: E402
from orchestrator.training.batches import Update, captured, packed, rounded  # noqa: E402

Step = Callable[[Update], None]

PUBLISHED = {
    "training, tok/s": {
        "fairseq, base, one V100, fp16 (its issue 940)": 40_000,
        "fairseq, 8 A100, size not stated, presumably big (LightSeq's documentation)": 445_600,
        "LightSeq, 8 A100, size not stated, presumably big": 683_100,
    },
    "decoding, tok/s": {"CTranslate2 fp16, base, one A10G (its README)": 10_991},
}


def matmul_tflops(device: torch.device, n: int = 4096, times: int = 20) -> float:
    """Returns the rate of bf16 products of n x n matrices (512 x 512 on a CPU) in TFLOP/s."""
    n = n if device.type == "cuda" else 512
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    seconds = timed(device, lambda: [a @ b for _ in range(times)])
    return 2.0 * n**3 * times / seconds / 1e12


def timed(device: torch.device, work: Callable[[], Any]) -> float:
    """Returns the seconds until the device has finished `work`."""
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def _peak_gib(device: torch.device) -> float | None:
    """Since the last reset, of all models in the process: weights and optimisers of the other rows are part of it. None on a CPU."""
    return round(torch.cuda.max_memory_allocated() / 2**30, 1) if device.type == "cuda" else None


FORMS = {
    "padded": rounded,  # as before packed rows
    "packed": packed,  # no padding
    "captured": captured,  # graphs replay forward and backward
    "compiled": packed,  # layers and loss through inductor
    "compiled, captured": captured,
}
"""In which batches reach the device."""
PLAIN = ["plain torch", "plain torch, compiled"]


def ours(size: Size, device: torch.device, form: str) -> Step:
    step = TrainingStep(build(size.model(), size.vocab, size.vocab).to(device), device, autocast=True)
    if "compiled" in form:
        step.objective.model.compile_layers()
    return step


def plain(size: Size, device: torch.device, *, compiled: bool) -> Step:
    """A training step of plain torch: scaled_dot_product_attention, all logits at once, fused AdamW."""
    model = plain_model(size, device).train()
    if compiled:
        for layer in (*model.encoder, *model.decoder):
            layer.compile(dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(update: Update) -> None:
        optimizer.zero_grad(set_to_none=True)
        for batch in update.micro_batches:
            src, tgt_in, tgt_out = (t.to(device, non_blocking=True) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            with torch.autocast(device.type, torch.bfloat16):
                mean = plain_loss(model, src, tgt_in, tgt_out, 0.1)
            (mean * (int((batch.tgt_out != 0).sum()) / update.tgt_tokens)).backward()
        optimizer.step()

    return step


def plain_model(size: Size, device: torch.device) -> PlainTransformer:
    return PlainTransformer(size.vocab, size.d_model, size.d_ff, size.num_heads, size.layers, DROPOUT).to(device)


def training(name: str, pairs: list[Pair], args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    size, on_gpu = SIZES[name], device.type == "cuda"
    updates = updates_of(pairs, args.batch_tokens, args.updates)
    tokens, flop = sum(u.tgt_tokens for u in updates), training_per_target_token(size, pairs)

    given = {form: in_form(updates, FORMS[form], device) for form in args.forms}
    given |= dict.fromkeys(args.plain, in_form(updates, rounded, device))
    steps = {form: ours(size, device, form) for form in args.forms}
    steps |= {form: plain(size, device, compiled="compiled" in form) for form in args.plain}
    seconds: dict[str, list[float]] = {row: [] for row in steps}
    memory, rates, failed = {}, [], {}
    for _ in range(args.rounds + 2):  # the first two warm up, compile and capture
        for row, step in steps.items():
            if row in failed:
                continue
            _reset_peak(device)
            try:
                seconds[row].append(timed(device, lambda step=step, row=row: [step(update) for update in given[row]]))
            except Exception as error:  # the other forms are measured
                failed[row] = f"{type(error).__name__}: {error}"[:2000]
            memory[row] = _peak_gib(device)
        rates.append(matmul_tflops(device))
    peak = statistics.median(rates)
    rows: dict[str, Any] = {row: {"failed": reason} for row, reason in failed.items()}
    for row, (first, second, *rest) in ((row, times) for row, times in seconds.items() if row not in failed):
        rate = tokens / statistics.median(rest)
        rows[row] = {
            "tokens_per_second": round(rate),
            "spread": [round(tokens / max(rest)), round(tokens / min(rest))],
            "mfu": round(rate * flop / 1e12 / peak, 4),
            "peak_gib": memory[row],
            "first_rounds_seconds": [round(first, 1), round(second, 1)],
            "padding_share": round(1 - (tokens + sum(u.src_tokens for u in updates)) / _positions(given[row]), 3),
        } | (kernels(steps[row], given[row][0]) if on_gpu and args.profile else {})
    return {"bf16_matmul_tflops": round(peak, 1), "updates": len(updates), "target_tokens": tokens, "rows": rows}


def _positions(updates: list[Update]) -> int:
    """Of both sides, padding included."""
    batches = [batch for update in updates for batch in update.micro_batches]
    return sum(sum(len(l.real) for l in b.layouts) if b.layouts else b.src.numel() + b.tgt_in.numel() for b in batches)


KINDS = {
    "attention": "flash|fmha|attention|^_forward|^_backward",
    "products": "gemm|cutlass|nvjet|xmma|cublas|splitk",
    "optimizer": "multi_tensor|adam",
    "compiled": "triton",
    "softmax": "softmax",
    "copies": "copy|Memcpy|CatArray|Memset",
    "reductions": "reduce",
    "elementwise": "elementwise|dropout|layer_norm|index|gather|scatter|embedding",
}


def kernels(step: Step, update: Update) -> dict[str, Any]:
    """Of one update: their number and time by kind, and the longest."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        total = timed(torch.device("cuda"), lambda: step(update))
    events = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    by_kind: dict[str, list[float]] = {}
    by_name: dict[str, list[float]] = {}
    for event in events:
        kind = next((kind for kind, pattern in KINDS.items() if re.search(pattern, event.name, re.IGNORECASE)), "other")
        milliseconds = event.time_range.elapsed_us() / 1000
        by_kind.setdefault(kind, []).append(milliseconds)
        by_name.setdefault(event.name[:90], []).append(milliseconds)
    busy = sum(map(sum, by_kind.values()))
    longest = sorted(by_name.items(), key=lambda item: -sum(item[1]))[:25]
    return {
        "kernels": {"number": len(events), "milliseconds": round(busy, 2), "busy": round(busy / 1000 / total, 3)},
        "kinds": {kind: [len(times), round(sum(times), 2)] for kind, times in sorted(by_kind.items())},
        "longest": [[name, len(times), round(sum(times), 2)] for name, times in longest],
    }


def decoding(name: str, pairs: list[Pair], args: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """Sentences and tokens a second; all outputs have exactly --length tokens."""
    size = SIZES[name]
    model = FullLength(build(size.model(), size.vocab, size.vocab).to(device).eval())
    other = plain_model(size, device).eval()
    other.bias = torch.zeros(size.vocab, device=device)
    other.bias[EOS] = -1e9
    lines = []
    for batch, beam, precision in product(args.batches, (1, 5), ("fp32", "bf16")):
        sources = sorted((src for src, _ in pairs[:batch]), key=len, reverse=True)
        ids = pad(sources).to(device)
        spec = DecodeSpec(beam_size=beam, max_ratio=1e-6, max_extra=args.length)
        seconds: dict[str, list[float]] = {"ours": [], "plain torch": []}
        for _ in range(args.rounds + 1):
            with prepared(model, precision):
                seconds["ours"].append(timed(device, lambda ids=ids, spec=spec: beam_search(model, ids, spec)))
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                work = lambda ids=ids, beam=beam: plain_beam_search(other, ids, beam, args.length)  # noqa: E731
                seconds["plain torch"].append(timed(device, work))
        rates = {row: len(sources) / statistics.median(found[1:]) for row, found in seconds.items()}
        rows = {
            row: {"sentences_per_second": round(rate, 1), "tokens_per_second": round(rate * args.length)} for row, rate in rates.items()
        }
        lines.append({"batch": len(sources), "beam": beam, "precision": precision, "rows": rows})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", nargs="+", choices=list(SIZES), default=["base", "small"])
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--updates", type=int, default=20, help="a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--forms", nargs="*", choices=list(FORMS), help="all, on a CPU those that are not captured")
    parser.add_argument("--plain", nargs="*", choices=PLAIN, default=PLAIN)
    parser.add_argument("--profile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--decode", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    device = torch.device(args.device)
    if args.forms is None:
        args.forms = [form for form in FORMS if device.type == "cuda" or "captured" not in form]
    if device.type == "cuda" and not torch.cuda.is_available():
        result: dict[str, Any] = {"benchmark": "gpu", "not_measured": "no CUDA device"}
        print(json.dumps(result) if args.json else "not measured: no CUDA device (--device cpu --size tiny tries the path)")
        return
    result = {"benchmark": "gpu", "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "published": PUBLISHED}
    result["device"] = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    for name in args.size:
        pairs = text(SIZES[name].vocab, max(2000, args.updates * args.batch_tokens // 20))
        result[name] = {"training": training(name, pairs, args, device)}
        result[name] |= {"decoding": decoding(name, pairs, args, device)} if args.decode else {}
    print(json.dumps(result) if args.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
