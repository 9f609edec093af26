"""Cost of each variant relative to its table's baseline, in training and decoding, by speed and by operations, with the paper's ratio.

    python benchmarks/variants.py [--size small] [--precision fp32] [--targets dou2018/table1 mlrf2018/text] [--json]

Rows: all rows with a reported speed in the given tables (default: all tables that report one), or all rows of a given table that reports
none, at the benchmark's width and vocabulary, with the row's own depth, norm and components. All rows of a table are measured in this
process, interleaved A, B, C, B, C, A, ..: the same updates of synthetic text, then the same sentences with outputs as long as their
sources, with beam search and greedily. A ratio is the median over rounds of the row's speed over the baseline's; above 1 is faster. `by
FLOP` is the ratio of operations counted by torch, which would be the speed ratio if all operations cost the same. `kept`: what the
forward pass of an update leaves in memory for the backward pass, as a ratio; above 1 is more. Decoding passes (`within`) if its slowdown
is at most 10% above that ratio's.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from executed_flops import counter_of_flops  # noqa: E402
from machine import allocated, describe, measured_rates, rates_text  # noqa: E402
from sizes import SIZES, Size, text  # noqa: E402
from training_step import trainer_of, updates_of  # noqa: E402

from models.transformer import build, count_parameters  # noqa: E402
from orchestrator import cpu  # noqa: E402
from orchestrator.analysis.base import Subject  # noqa: E402
from orchestrator.analysis.kinds.speed import Case, paper_speed  # noqa: E402
from orchestrator.decoding.validation_bleu import tuned_decode  # noqa: E402
from orchestrator.ledger.keys import Keys  # noqa: E402
from orchestrator.ledger.results import Ledger  # noqa: E402
from orchestrator.report.figures import ratio_of  # noqa: E402
from orchestrator.specs import index, profiles  # noqa: E402
from orchestrator.specs.row import Row  # noqa: E402
from orchestrator.specs.rows import resolve  # noqa: E402
from orchestrator.specs.schema import BatchSpec, ModelSpec, RunSpec  # noqa: E402
from orchestrator.training.batches import Update  # noqa: E402
from orchestrator.training.objective import Normalizer, Objective  # noqa: E402

COLUMNS = ("train_speed", "decode_speed")
MARGIN = 1.10


@dataclass
class Measured:
    """A row at the benchmark's size. flops: of all updates, and of all sentences with beam and greedy search. seconds: of each round.
    kept: bytes that the forward pass of the first update leaves for the backward pass."""

    case: Case
    kept: int = 0
    flops: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"train": [], "beam": [], "greedy": []})

    def once(self, name: str, beam: int) -> float:
        if name == "train":
            return self.case.train()
        self.case.search = self.case.search.model_copy(update={"beam_size": beam if name == "beam" else 1})
        return self.case.decode()

    def count(self, name: str, beam: int) -> None:
        with counter_of_flops() as counter:
            self.once(name, beam)
        self.flops[name] = counter.get_total_flops()
        if name == "train":
            spec, update = self.case.subject.spec, self.case.updates[0]
            batch, objective = update.micro_batches[0], Objective(self.case.model, spec.optim.label_smoothing)
            before = allocated()
            with torch.autocast("cpu", torch.bfloat16, enabled=spec.train.precision == "bf16"):
                loss, _ = objective(batch.src, batch.tgt_in, batch.tgt_out, Normalizer(update.src_tokens, update.tgt_tokens, 1.0))
            self.kept = allocated() - before
            loss.backward()
            self.case.model.zero_grad(set_to_none=True)


def tables() -> list[str]:
    """Returns the addresses of all tables with a row that reports a speed."""
    known, _ = index.tables()
    return [
        address
        for address, table in known.items()
        if any(raw.figures.data.get("analysis") == "speed" or set(COLUMNS) & set(raw.head.expect) for raw in table.rows.values())
    ]


def reporting(address: str) -> list[Subject]:
    """Returns the rows with a reported speed, the baseline first; an analysis row of kind `speed` is replaced by the rows it names.

    Of a table that reports none all rows that run.
    """
    found: dict[str, Subject] = {}
    rows = resolve(address)
    if address not in tables():
        return [Subject(row, Keys(None, None, None), row.label) for row in rows if row.kind == "run"]
    for row in rows:
        if row.kind == "run":
            subject = Subject(row, Keys(None, None, None), row.label)
            if any(paper_speed(subject, column) is not None for column in COLUMNS):
                found[row.id] = subject
        elif row.analysis == "speed":
            for target, name in zip(row.of, row.expect, strict=False):
                found[target] = Subject(resolve(target)[0], Keys(None, None, None), name, row)
    return list(found.values())


def at_size(row: Row, size: Size, precision: str, batch_tokens: int) -> Row:
    """Returns the row with the benchmark's width and heads, one thread and `precision`."""
    assert row.spec is not None
    model = row.spec.model.model_dump()
    factor = size.d_model / model["d_model"]
    model["num_heads"] = size.num_heads
    profiles._scale(model, factor)
    train = row.spec.train.model_copy(update={"precision": precision, "threads": 1, "compile": False})
    batch = BatchSpec(unit="tokens", size=batch_tokens)
    spec: RunSpec = row.spec.model_copy(update={"model": ModelSpec.model_validate(model), "train": train, "batch": batch})
    return replace(row, spec=spec)


def cases(subjects: list[Subject], size: Size, args: argparse.Namespace) -> tuple[list[Measured], list[Update]]:
    """Builds every row's model, with the same updates and sentences for all."""
    prepared = text(size.vocab, 40 * args.steps * max(1, args.batch_tokens // 1000) + 4 * args.sentences)
    updates = updates_of(prepared, args.batch_tokens, args.steps)
    sources = [source for source, _ in prepared[: args.sentences]]
    found = []
    for subject in subjects:
        row = at_size(subject.row, size, args.precision, args.batch_tokens)
        assert row.spec is not None
        trainer = trainer_of(row.spec, prepared, size.vocab)
        search = tuned_decode(row.spec.decode, subject.keys, Ledger(Path()))  # nothing is tuned here: the first candidate
        scaled = replace(subject, row=row)
        found.append(Measured(Case(scaled, trainer, False, sources, search, args.clock, updates, forced=True)))
    return found, updates


def groups(subjects: list[Subject], size: Size, limit: float) -> Iterator[list[Subject]]:
    """Splits the rows into groups whose models and optimisers fit in `limit` GB; each group starts with the baseline."""
    base, *rest = subjects
    group: list[Subject] = []
    room = limit
    for subject in rest:
        need = _gigabytes(subject, size)
        if group and need > room:
            yield [base, *group]
            group, room = [], limit
        group.append(subject)
        room -= need
    yield [base, *group]


def _gigabytes(subject: Subject, size: Size) -> float:
    """Returns the GB of weights, gradients and Adam's two moments."""
    spec = at_size(subject.row, size, "fp32", 1000).spec
    assert spec is not None
    with torch.device("meta"):
        return 16 * count_parameters(build(spec.model.model_dump(), size.vocab, size.vocab)) / 1e9


def measure_table(address: str, size: Size, args: argparse.Namespace, tick: Callable[[], None]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    targets, sentences = 0, 0
    all_ = reporting(address)
    subjects = [subject for subject in all_ if args.only is None or any(subject.row.id.endswith(f"/{name}") for name in args.only)]
    if not subjects:
        names = ", ".join(subject.row.id.removeprefix(f"{address}/") for subject in all_)
        raise SystemExit(f"error: --only: found {' '.join(args.only)}; expected some of {names}")
    for group in groups(subjects, size, args.memory):
        measured, updates = cases(group, size, args)
        targets, sentences = sum(update.tgt_tokens for update in updates), len(measured[0].case.sources)
        for number in range(-1, args.rounds):  # round -1 counts operations and is not timed
            first = max(number, 0) % len(measured)
            for name in ("train", "beam", "greedy"):
                for one in (*measured[first:], *measured[:first]):
                    if number < 0:
                        one.count(name, args.beam)
                        one.once(name, args.beam) if name == "train" else None
                    else:
                        one.seconds[name].append(one.once(name, args.beam))
                    tick()
        found = [_record(one, measured[0], targets, sentences) for one in measured]
        rows += found[1:] if rows else found
    return {"table": address, "rows": rows, "target_tokens": targets, "sentences": sentences}


def _record(one: Measured, base: Measured, targets: int, sentences: int) -> dict[str, Any]:
    subject = one.case.subject
    record: dict[str, Any] = {"row": subject.row.id, "label": subject.row.label, "params": count_parameters(one.case.model)}
    record |= {"kept_bytes": one.kept, "kept": round(one.kept / base.kept, 3)}
    for name, work in (("train", targets), ("beam", sentences), ("greedy", sentences)):
        rates, theirs = [work / s for s in one.seconds[name]], [work / s for s in base.seconds[name]]
        each = [a / b for a, b in zip(rates, theirs, strict=True)]
        by_flops = base.flops[name] / one.flops[name]
        record[name] = {
            "per_second": round(statistics.median(rates), 2),
            "ratio": ratio_of(rates, theirs),
            "spread": [round(min(each), 3), round(max(each), 3)],
            "gflop": round(one.flops[name] / 1e9, 3),
            "by_flops": round(by_flops, 4),
            "beside_flops": round((ratio_of(rates, theirs) or 0.0) / by_flops, 3),
        }
        if name != "train":
            record[name]["within"] = 1 / (ratio_of(rates, theirs) or 1e-9) <= MARGIN / by_flops
    for column, name in zip(COLUMNS, ("train", "beam"), strict=True):
        own, theirs_reported = paper_speed(subject, column), paper_speed(base.case.subject, column)
        record[name]["paper"] = round(own / theirs_reported, 4) if own and theirs_reported else None
    return record


def measure(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    size = SIZES[args.size]
    cpu.use(1)
    wanted = args.targets or tables()
    result: dict[str, Any] = {
        "benchmark": "variants",
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe() | {"matmul": cpu.matmul_path()},
        "matmul_gflops": measured_rates(),
        "size": args.size,
        "precision": args.precision,
        "clock": args.clock,
        "rounds": args.rounds,
        "steps": args.steps,
        "batch_tokens": args.batch_tokens,
        "beam": args.beam,
        "tables": [],
    }
    with Progress(console=console, transient=True) as progress:
        for address in wanted:
            bar = progress.add_task(address, total=None)
            result["tables"].append(measure_table(address, size, args, lambda bar=bar: progress.advance(bar)))
    return result


def show(result: dict[str, Any]) -> None:
    machine = result["machine"]
    print(
        f"{result['size']} width, {result['precision']}, one thread of {machine['cpu']} ({machine['matmul']}), torch {machine['torch']}; "
        f"{result['clock']} clock, {result['rounds']} rounds of {result['steps']} updates of {result['batch_tokens']} tokens; "
        f"{result['date']}; {rates_text(result['matmul_gflops'])}"
    )
    for table in result["tables"]:
        base = table["rows"][0]["row"]
        print(
            f"\n{table['table']}: speed as a ratio to {base}; decoding of {table['sentences']} sentences, beam {result['beam']} and greedy"
        )
        print(f"{'':16} {'train tok/s':>11}  ratio by FLOP  paper   kept | {'beam sent/s':>11}  ratio by FLOP  paper within | ", end="")
        print(f"{'greedy sent/s':>13}  ratio by FLOP within")
        for row in table["rows"]:
            parts = [row["row"].split("/", 1)[1][-16:].ljust(16)]
            for name, width in (("train", 11), ("beam", 11), ("greedy", 13)):
                one = row[name]
                text = f"{one['per_second']:>{width}.1f} {one['ratio']:>6.2f} {one['by_flops']:>7.2f}"
                text += "" if name == "greedy" else f" {_paper(one)}"
                parts.append(text + (f" {row['kept']:>6.2f}" if name == "train" else f" {_yes(one)}") + ("" if name == "greedy" else " |"))
            print(" ".join(parts), "", row["label"])


def _paper(record: dict[str, Any]) -> str:
    return f"{'' if record['paper'] is None else format(record['paper'], '.2f'):>6}"


def _yes(record: dict[str, Any]) -> str:
    return f"{'yes' if record['within'] else 'NO':>6}"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--targets", nargs="*", default=[], help="tables; default: all that report a speed")
    parser.add_argument("--only", nargs="*", default=None, help="names of rows; the first one is what the others are compared with")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="updates of one row in one round")
    parser.add_argument("--batch-tokens", type=int, default=2000)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu", help="cpu: seconds that this process computed")
    parser.add_argument("--memory", type=float, default=6.0, help="GB for the models of a group of rows")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    return parser.parse_args(given)


def main() -> None:
    args = arguments()
    result = measure(args, Console(stderr=True))
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
