"""Speed of training and decoding relative to the first row. All rows are measured in one run, interleaved: A, B, C, B, C, A, ...

Each row trains its real model on batches of its corpus (forward, backward, update, with learning rate 0 so that the weights do not change)
and decodes sentences of its test set with its own search. Wei et al. 2020, Table 2: batch=32, beam=5. The rates of all rounds are saved in
RESULTS/speed, for tables.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from orchestrator.analysis.base import Analysis, AnalysisContext, register
from orchestrator.analysis.timing import WORKS, Case, make_case, measure, paper_speed
from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import short
from orchestrator.ledger.provenance import collect
from orchestrator.report.speeds import FOLDER, ratio_of

FORMAT = 1
UNLIMITED = 1 << 40
OPTIONS = {"rounds": "5", "steps": "4", "sentences": "64", "batch": "own", "beam": "own", "device": "auto"}
"""rounds: the median is over them. steps, sentences: updates and translations per row and round. batch: sentences per decoding batch; beam:
beam size; `own` for the row's."""
SHOWN = ["label", *(f"{work}_{name}" for work in WORKS for name in ("ratio", "low", "high", "paper")), "decode_tokens_per_second"]


@register("speed", options=OPTIONS, needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row with ratios to the first one. Raises UserError if a corpus is missing."""
    rounds, steps, sentences = (context.integer(name, 1) for name in ("rounds", "steps", "sentences"))
    batch, beam = context.limit("batch"), context.limit("beam")
    device = context.device()
    clock = "cpu" if device.type == "cpu" and all(s.spec.train.threads == 1 for s in context.subjects) else "wall"
    cases = [make_case(context, subject, sentences, steps, device, clock) for subject in context.subjects]
    for case in cases:
        if batch is not None:
            case.batching = {"batch_tokens": UNLIMITED, "batch_sentences": batch}
        if beam is not None:
            case.search = case.search.model_copy(update={"beam_size": beam})
    forced = measure(cases, rounds)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else str(collect()["cpu"] or "cpu")
    about = {"rounds": rounds, "steps": steps, "sentences": sentences, "device": machine, "clock": clock, "forced_length": forced}
    path = _save(context, cases, about)
    notes = [
        f"measured in one run, rows in turns: {rounds} rounds of {steps} updates and {sentences} sentences, median (low, high: range over "
        f"rounds); {clock} clock of {machine}",
        f"ratios are to {cases[0].subject.row.id}; above 1 is faster. Kept in {path.name} for tables",
    ]
    if forced:
        notes.append("not every row has trained weights here: every output is made as long as its source")
    lowest, highest = (pick(case.output_tokens for case in cases) for pick in (min, max))
    if lowest != highest:
        notes.append(f"outputs have {lowest:,} to {highest:,} tokens: a row that writes longer outputs decodes fewer sentences a second")
    return Analysis([_record(case, cases[0]) for case in cases], notes=notes, shown=SHOWN, kept=[path])


def _record(case: Case, base: Case) -> dict[str, Any]:
    decoding = statistics.median(case.rates("decode"))
    record: dict[str, Any] = case.subject.columns | {
        "weights": "trained" if case.trained else "fresh",
        "params": case.params,
        "output_tokens": case.output_tokens,
        "train_steps_per_second": round(statistics.median(case.rates("train")), 4),
        "decode_sentences_per_second": round(decoding, 4),
        "decode_tokens_per_second": round(decoding * case.output_tokens / len(case.sources), 1),
    }
    for work in WORKS:
        ours, theirs = case.rates(work), base.rates(work)
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
        subject, speeds = case.subject, {f"{work}_speed": [round(rate, 6) for rate in case.rates(work)] for work in WORKS}
        keys = {"train_key": subject.keys.train, "decode_key": subject.keys.decode}
        rows.append({"id": subject.row.id, "seed": subject.spec.seed} | keys | speeds)
    key = digest({"format": FORMAT, "device": about["device"], "rows": [row["train_key"] or row["id"] for row in rows]})
    path = context.ledger.root / FOLDER / f"{short(key)}.json"
    atomic.write_json(path, {"key": key, "measured": time.strftime("%Y-%m-%dT%H:%M:%S"), **about, "rows": rows})
    return path
