"""Speed of training and decoding relative to the first row. All rows are measured in one run, interleaved: A, B, C, B, C, A, ...

Each row trains its real model on batches of its corpus (forward, backward, update, with learning rate 0 so that the weights do not change)
and decodes sentences of its test set with its own search. The rates of all rounds are saved in RESULTS/speed, for tables.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records
from orchestrator.analysis.registry import register
from orchestrator.analysis.timing import Case, clock_option, first_updates, machine, make_case, measure, paper_speed
from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import short
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import FOLDER, SPEEDS, ratio_of

FORMAT = 1


@register("speed", options={"rounds": "5", "steps": "4", "sentences": "64", "device": "auto", "clock": "auto"}, needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row with ratios to the first one. Raises UserError if a corpus is missing.

    Options: `rounds`, over which the median is taken; `steps` and `sentences`, updates and translations per row and round.
    """
    rounds, steps, sentences = (context.integer(name, 1) for name in ("rounds", "steps", "sentences"))
    device = context.device()
    clock = clock_option(context, device)
    cases = [make_case(context, subject, sentences, device, clock) for subject in context.subjects]
    for case in cases:
        case.updates = first_updates(context, case.subject, steps)
    forced = measure(cases, rounds, ("train", "decode"))
    records = [_record(case, cases[0]) for case in cases]
    about = {"rounds": rounds, "steps": steps, "sentences": sentences, "device": machine(device), "clock": clock, "forced_length": forced}
    path = _save(context, cases, about)
    notes, summary = _notes(cases, about, path), [_line(record) for record in records]
    return Analysis("speed", records, partial(draw, records), notes, summary, kept=[path])


def rates(case: Case, work: str) -> list[float]:
    """Returns updates/s or sentences/s of each round."""
    count = len(case.updates if work == "train" else case.sources)
    return [count / seconds for seconds in case.seconds[work]]


def _record(case: Case, base: Case) -> dict[str, Any]:
    record: dict[str, Any] = case.subject.columns | {
        "weights": "trained" if case.trained else "fresh",
        "params": case.params,
        "output_tokens": case.output_tokens,
        "train_steps_per_second": round(statistics.median(rates(case, "train")), 4),
        "decode_sentences_per_second": round(statistics.median(rates(case, "decode")), 4),
    }
    for work in ("train", "decode"):
        ours, theirs = rates(case, work), rates(base, work)
        ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
        paper, base_paper = (paper_speed(each.subject, f"{work}_speed") for each in (case, base))
        record |= {
            f"{work}_ratio": ratio_of(ours, theirs),
            f"{work}_low": round(min(ratios), 4),
            f"{work}_high": round(max(ratios), 4),
            f"{work}_paper": round(paper / base_paper, 4) if paper and base_paper else None,
        }
    return record


def _save(context: AnalysisContext, cases: list[Case], about: dict[str, Any]) -> Path:
    """Writes RESULTS/speed/KEY16.json; a new measurement of the same rows on the same device replaces it."""
    rows = []
    for case in cases:
        keys = {"train_key": case.subject.keys.train, "decode_key": case.subject.keys.decode}
        speeds = {name: [round(rate, 6) for rate in rates(case, name.removesuffix("_speed"))] for name in SPEEDS}
        rows.append({"id": case.subject.row.id, "seed": case.subject.spec.seed, **keys, **speeds})
    key = digest({"format": FORMAT, "device": about["device"], "rows": [row["train_key"] or row["id"] for row in rows]})
    path = context.ledger.root / FOLDER / f"{short(key)}.json"
    atomic.write_json(path, {"key": key, "measured": time.strftime("%Y-%m-%dT%H:%M:%S"), **about, "rows": rows})
    return path


def _line(record: dict[str, Any]) -> str:
    """Formats `row2  train 0.95 (paper 0.93)  decode 0.97 (paper 0.96)  dense connection`."""
    parts = []
    for work in ("train", "decode"):
        paper = "" if record[f"{work}_paper"] is None else f"(paper {record[f'{work}_paper']:.2f})"
        parts.append(f"{work} {record[f'{work}_ratio']:.2f} {paper:12}")
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


def draw(records: Records, figure: Figure) -> None:
    """Draws the ratios of every row: ours with their range over the rounds, the paper's as crosses."""
    panels = figures.panels(figure, 2, height=0.7 + 0.22 * len(records), most=2, sharey=True)
    for axes, work in zip(panels, ("train", "decode"), strict=True):
        for place, record in enumerate(records):
            axes.plot([record[f"{work}_low"], record[f"{work}_high"]], [place, place], color=figures.COLOURS[0], linewidth=2)
        figures.plot_ratios(axes, [r[f"{work}_ratio"] for r in records], [r[f"{work}_paper"] for r in records])
        axes.set_title("training, updates/s" if work == "train" else "decoding, sentences/s")
    figures.label_rows(axes, [r["label"] for r in records])
    labelled = {h.get_label(): h for panel in panels for h in panel.get_legend_handles_labels()[0]}
    figures.legend(figure, list(labelled.values()))
