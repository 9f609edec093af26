"""Speed of training and decoding, rows against the first, all measured in one run and in turns: A, B, C, B, C, A, ...

Each row is its real model: training steps on the corpus's own batches (forward, backward, update; the learning rate is 0, so that the
weights stay), decoding of real sentences of its test set by its own search. The medians of the rounds go to RESULTS/speed, for tables.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.base import Analysis, Context, Subject, choice
from orchestrator.analysis.options import whole
from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import short
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import FOLDER, SPEEDS, ratio_of
from orchestrator.specs.table import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from orchestrator.analysis.timing import Case

NEEDS_RUNS = False
OPTIONS = {"rounds": "5", "steps": "4", "sentences": "64", "device": "auto", "clock": "auto"}
"""rounds: turns, the median counts; steps, sentences: of one row in one round; device: auto, cpu or cuda.

clock: wall; or cpu, the seconds that this process computed, which other work on the machine disturbs less; auto: cpu where all rows run on
one thread of a CPU, which is the same on an idle machine.
"""

FORMAT = 1
COLUMNS = [
    *("row", "label", "seed", "weights", "params", "train_steps_per_second", "train_ratio", "train_low", "train_high", "train_paper"),
    *("decode_sentences_per_second", "decode_ratio", "decode_low", "decode_high", "decode_paper", "output_tokens"),
]


def analyse(context: Context) -> Analysis:
    """A record for each row, ratios to the first one. UserError where a corpus is absent."""
    from orchestrator.analysis.timing import Settings, clock_of, device_of, measure

    rounds, steps, sentences = (whole(context, name, 1) for name in ("rounds", "steps", "sentences"))
    device = device_of(choice("device", context.options["device"], ("auto", "cpu", "cuda")))
    clock = clock_of(choice("clock", context.options["clock"], ("auto", "wall", "cpu")), context, device)
    cases, forced = measure(context, Settings(rounds, steps, sentences, clock), device)
    records = [_record(case, cases[0]) for case in cases]
    about = {"rounds": rounds, "steps": steps, "sentences": sentences, "device": machine(device), "clock": clock, "forced_length": forced}
    path = _keep(context, cases, about)
    notes, summary = _notes(cases, about, path), [_line(record) for record in records]
    return Analysis("speed", COLUMNS, records, lambda figure: _draw(figure, records), notes, summary, kept=[path])


def _record(case: Case, base: Case) -> dict[str, Any]:
    record: dict[str, Any] = {
        "row": case.subject.row.id,
        "label": case.subject.label,
        "seed": case.subject.spec.seed,
        "weights": "trained" if case.trained else "fresh",
        "params": case.params,
        "output_tokens": case.output_tokens,
        "train_steps_per_second": round(statistics.median(case.rates("train")), 4),
        "decode_sentences_per_second": round(statistics.median(case.rates("decode")), 4),
    }
    for name in ("train", "decode"):
        ratios = [own / theirs for own, theirs in zip(case.rates(name), base.rates(name), strict=True)]
        paper = reported(base.subject, f"{name}_speed"), reported(case.subject, f"{name}_speed")
        record |= {
            f"{name}_ratio": ratio_of(case.rates(name), base.rates(name)),
            f"{name}_low": round(min(ratios), 4),
            f"{name}_high": round(max(ratios), 4),
            f"{name}_paper": round(paper[1] / paper[0], 4) if paper[0] and paper[1] else None,
        }
    return record


def reported(subject: Subject, column: str) -> float | None:
    """The paper's absolute figure of a row. An analysis row reports one training speed for each of its rows, in their order."""
    own = subject.row.expect.get(column)
    asked = subject.asked
    if asked is not None and column == "train_speed" and len(asked.expect) == len(asked.of) and subject.row.id in asked.of:
        own = list(asked.expect.values())[asked.of.index(subject.row.id)]
    return None if own is None or isinstance(own, bool) else number(own)


def _keep(context: Context, cases: list[Case], about: dict[str, Any]) -> Path:
    """RESULTS/speed/KEY16.json: the same rows measured again replace it."""
    rows = []
    for case in cases:
        rates = {name: [round(rate, 6) for rate in case.rates(name.removesuffix("_speed"))] for name in SPEEDS}
        keys = {"train_key": case.subject.keys.train, "decode_key": case.subject.keys.decode}
        rows.append({"id": case.subject.row.id, "seed": case.subject.spec.seed, **keys, **rates})
    key = digest({"format": FORMAT, "device": about["device"], "rows": [row["train_key"] or row["id"] for row in rows]})
    document = {"key": key, "measured": time.strftime("%Y-%m-%dT%H:%M:%S"), **about, "rows": rows}
    path = context.ledger.root / FOLDER / f"{short(key)}.json"
    atomic.write_json(path, document)
    return path


def machine(device: Any) -> str:
    """Name of the GPU or the CPU."""
    import torch

    from orchestrator.ledger.provenance import capsule

    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(capsule()["cpu"] or "cpu")


def _line(record: dict[str, Any]) -> str:
    """`row2  train 0.95 (paper 0.93)  decode 0.97 (paper 0.96)  dense connection`."""
    parts = []
    for name in ("train", "decode"):
        paper = "" if record[f"{name}_paper"] is None else f"(paper {record[f'{name}_paper']:.2f})"
        parts.append(f"{name} {record[f'{name}_ratio']:.2f} {paper:12}")
    return f"{short_id(record['row']):20} {'  '.join(parts)}  {record['label']}".rstrip()


def _notes(cases: list[Case], about: dict[str, Any], path: Path) -> list[str]:
    threads = sorted({case.subject.spec.train.threads for case in cases})
    precision = sorted({case.subject.spec.train.precision for case in cases})
    notes = [
        f"measured in one run, rows in turns: {about['rounds']} rounds of {about['steps']} updates and {about['sentences']} sentences, "
        f"median (low, high: range over rounds); {about['clock']} clock of {about['device']}, threads {', '.join(map(str, threads))}, "
        f"{', '.join(precision)}",
        f"ratios are to {cases[0].subject.row.id}; above 1 is faster. Kept in {path.name} for tables",
    ]
    if about["forced_length"]:
        notes.append(
            "not every row has trained weights here: every output is made as long as its source, so that outputs are of equal length"
        )
    lowest, highest = (pick(case.output_tokens for case in cases) for pick in (min, max))
    if lowest != highest:
        notes.append(f"outputs have {lowest:,} to {highest:,} tokens: a row that writes longer outputs decodes fewer sentences a second")
    return notes


def _draw(figure: Figure, records: list[dict[str, Any]]) -> None:
    """Ratios of every row: ours with their range over the rounds, the paper's as crosses."""
    figure.set_size_inches(8.0, max(2.0, 1.1 + 0.32 * len(records)))
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("train", "decode"), strict=True):
        for place, record in enumerate(records):
            axes.plot([record[f"{name}_low"], record[f"{name}_high"]], [place, place], color="tab:blue", linewidth=2)
        axes.plot([r[f"{name}_ratio"] for r in records], range(len(records)), "o", color="tab:blue", label="here")
        paper = [(r[f"{name}_paper"], place) for place, r in enumerate(records) if r[f"{name}_paper"] is not None]
        if paper:
            axes.plot(*zip(*paper, strict=True), "x", color="tab:red", label="paper")
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_title("training, updates/s" if name == "train" else "decoding, sentences/s")
        axes.set_xlabel("ratio to the first row")
    axes.set_yticks(range(len(records)), [r["label"] for r in records])
    axes.invert_yaxis()
    axes.legend(loc="best")
