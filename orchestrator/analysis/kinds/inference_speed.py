"""Decoding speed in target tokens per second at a fixed batch size in sentences and beam size (Wei et al. 2020, Table 2: batch 32, beam 5).

All rows are measured in one run, interleaved: A, B, C, B, C, A, ... Each row decodes sentences of its test set in batches of similar
length, with its own search settings except the beam size. Tokens are those of the best hypotheses, including EOS. The paper does not name
its machine, so only ratios are comparable.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records
from orchestrator.analysis.registry import register
from orchestrator.analysis.timing import Case, clock_option, machine, make_case, measure, paper_speed
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import ratio_of

PAPER = "decode_speed"
"""Column of `expect` with the paper's figure, in the paper's unit (Wei et al.: tokens per second)."""
UNLIMITED = 1 << 40
OPTIONS = {"batch": "32", "beam": "5", "rounds": "5", "sentences": "128", "device": "auto", "clock": "auto"}


@register("inference-speed", options=OPTIONS, needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row with ratios to the first one. Raises UserError if a corpus is missing.

    Options: `batch`, sentences per batch; `rounds`, over which the median is taken; `sentences` per row and round.
    """
    batch, beam, rounds, sentences = (context.integer(name, 1) for name in ("batch", "beam", "rounds", "sentences"))
    device = context.device()
    clock = clock_option(context, device)
    cases = [make_case(context, subject, sentences, device, clock) for subject in context.subjects]
    for case in cases:
        case.search = case.subject.spec.decode.model_copy(update={"beam_size": beam})
        case.batching = {"batch_tokens": UNLIMITED, "batch_sentences": batch}
    forced = measure(cases, rounds, ("decode",))
    records = [_record(case, cases[0]) for case in cases]
    notes = [
        f"measured in one run, rows in turns: {rounds} rounds of {len(cases[0].sources)} sentences in batches of {batch}, beam {beam}, "
        f"median (low, high: range over rounds); {clock} clock of {machine(device)}",
        "ratios are to the first row, round by round; the paper's figures are of another machine",
    ]
    if forced:
        notes.append("not every row has trained weights here: every output is made as long as its source")
    if device.type == "cpu" and clock == "wall":
        notes.append("other work on this machine disturbs the wall clock")
    return Analysis("inference-speed", records, partial(draw, records), notes, [_line(record) for record in records])


def rates(case: Case) -> list[float]:
    """Returns tokens/s of each round."""
    return [case.output_tokens / seconds for seconds in case.seconds["decode"]]


def _record(case: Case, base: Case) -> dict[str, Any]:
    paper, base_paper = paper_speed(case.subject, PAPER), paper_speed(base.subject, PAPER)
    return case.subject.columns | {
        "weights": "trained" if case.trained else "fresh",
        "encoder_layers": case.subject.spec.model.encoder.num_layers,
        "params": case.params,
        "tokens_per_second": round(statistics.median(rates(case)), 1),
        "low": round(min(rates(case)), 1),
        "high": round(max(rates(case)), 1),
        "ratio": ratio_of(rates(case), rates(base)),
        "paper": paper,
        "paper_ratio": round(paper / base_paper, 4) if paper and base_paper else None,
        "output_tokens": case.output_tokens,
    }


def _line(record: dict[str, Any]) -> str:
    paper = "" if record["paper"] is None else f"  paper {record['paper']:,g}"
    paper += "" if record["paper_ratio"] is None else f" ({record['paper_ratio']:.2f})"
    return f"{short_id(record['row']):20} {record['tokens_per_second']:>10,.0f} tokens/s ({record['ratio']:.2f}){paper}  {record['label']}"


def draw(records: Records, figure: Figure) -> None:
    """Draws tokens per second with their range (left) and ratios to the first row, the paper's as crosses (right)."""
    left, right = figures.panels(figure, 2, height=0.7 + 0.22 * len(records), most=2, sharey=True)
    places = range(len(records))
    left.barh(places, [r["tokens_per_second"] for r in records], color=figures.COLOURS[5], height=0.6)
    left.hlines(places, [r["low"] for r in records], [r["high"] for r in records], color="black", linewidth=1.5)
    left.set_xlabel("target tokens/s")
    figures.label_rows(left, [r["label"] for r in records])
    figures.plot_ratios(right, [r["ratio"] for r in records], [r["paper_ratio"] for r in records])
    figures.legend(figure, right.get_legend_handles_labels()[0])
