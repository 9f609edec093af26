"""Decoding speed in target tokens a second at a fixed batch of sentences and beam (Wei et al. 2020, Table 2: batch 32, beam 5).

All rows in one run and in turns: A, B, C, B, C, A, ... Each decodes sentences of its test set, in batches of similar length, by its own
search with another beam. Tokens are those of the best hypotheses, EOS counted. The paper does not name its machine: compare ratios.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from models.transformer import count_parameters
from orchestrator import cpu
from orchestrator.analysis.base import Analysis, Context, Subject, choice
from orchestrator.analysis.decoding import device_option
from orchestrator.analysis.options import whole
from orchestrator.analysis.speed import machine, reported
from orchestrator.analysis.timing import clock_of, model_of, now, some_sources, turns
from orchestrator.decoding.fixed_length import FullLength
from orchestrator.decoding.translate import decode_corpus
from orchestrator.report.figures import short_id
from orchestrator.report.speeds import ratio_of
from orchestrator.specs.schema import DecodeSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from models.transformer import Transformer

NEEDS_RUNS = False
OPTIONS = {"batch": "32", "beam": "5", "rounds": "5", "sentences": "128", "device": "auto", "clock": "auto"}
"""batch: sentences; rounds: turns, the median counts; sentences: of one row in one round; device, clock: as for `speed`."""
COLUMNS = [
    "row",
    "label",
    "seed",
    "weights",
    "encoder_layers",
    "params",
    "tokens_per_second",
    "low",
    "high",
    "ratio",
    "paper",
    "paper_ratio",
]
COLUMNS += ["output_tokens"]
PAPER = "decode_speed"
"""Column of `expect` with the paper's figure, in its own unit (Wei et al.: tokens a second)."""
UNLIMITED = 1 << 40


@dataclass
class Case:
    """One row, ready to decode. seconds: of each round; tokens: the same in every round."""

    subject: Subject
    model: Transformer
    trained: bool
    sources: list[list[int]]
    search: DecodeSpec
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0

    def decode(self, batch: int, clock: str, device: torch.device, *, forced: bool) -> float:
        """Seconds of all sentences. forced: every output is made as long as its source."""
        cpu.use(self.subject.spec.train.threads)
        model: nn.Module = FullLength(self.model) if forced else self.model
        search = self.search.model_copy(update={"max_ratio": 1.0, "max_extra": 0}) if forced else self.search
        started = now(clock, device)
        found = decode_corpus(model.eval(), self.sources, search, batch_tokens=UNLIMITED, batch_sentences=batch)
        seconds = now(clock, device) - started
        self.tokens = sum(len(hypotheses[0].ids) + 1 for hypotheses in found)
        return seconds

    @property
    def rates(self) -> list[float]:
        """Tokens/s of each round."""
        return [self.tokens / seconds for seconds in self.seconds]


def analyse(context: Context) -> Analysis:
    """A record for each row, ratios to the first one. UserError where a corpus is absent."""
    batch, beam, rounds, sentences = (whole(context, name, 1) for name in ("batch", "beam", "rounds", "sentences"))
    device = device_option(context)
    clock = clock_of(choice("clock", context.options["clock"], ("auto", "wall", "cpu")), context, device)
    cases = [_case(context, subject, beam, sentences, device) for subject in context.subjects]
    forced = not all(case.trained for case in cases)
    for number, _, case in turns(cases, rounds):
        seconds = case.decode(batch, clock, device, forced=forced)
        if number >= 0:
            case.seconds.append(seconds)
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
    return Analysis("inference-speed", COLUMNS, records, partial(_draw, records), notes, [_line(record) for record in records])


def _case(context: Context, subject: Subject, beam: int, sentences: int, device: torch.device) -> Case:
    prepared = context.prepared(subject)
    model, trained = model_of(context, subject, prepared, device)
    search = subject.spec.decode.model_copy(update={"beam_size": beam})
    return Case(subject, model, trained, some_sources(subject, prepared, sentences), search)


def _record(case: Case, base: Case) -> dict[str, Any]:
    paper, of_base = reported(case.subject, PAPER), reported(base.subject, PAPER)
    return {
        "row": case.subject.row.id,
        "label": case.subject.label,
        "seed": case.subject.spec.seed,
        "weights": "trained" if case.trained else "fresh",
        "encoder_layers": case.subject.spec.model.encoder.num_layers,
        "params": count_parameters(case.model),
        "tokens_per_second": round(statistics.median(case.rates), 1),
        "low": round(min(case.rates), 1),
        "high": round(max(case.rates), 1),
        "ratio": ratio_of(case.rates, base.rates),
        "paper": paper,
        "paper_ratio": round(paper / of_base, 4) if paper and of_base else None,
        "output_tokens": case.tokens,
    }


def _line(record: dict[str, Any]) -> str:
    paper = "" if record["paper"] is None else f"  paper {record['paper']:,g}"
    paper += "" if record["paper_ratio"] is None else f" ({record['paper_ratio']:.2f})"
    return f"{short_id(record['row']):20} {record['tokens_per_second']:>10,.0f} tokens/s ({record['ratio']:.2f}){paper}  {record['label']}"


def _draw(records: list[dict[str, Any]], figure: Figure) -> None:
    """Tokens a second with their range on the left; ratios to the first row, the paper's as crosses, on the right."""
    figure.set_size_inches(8.5, max(2.2, 1.2 + 0.32 * len(records)))
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(records))
    left.barh(places, [r["tokens_per_second"] for r in records], color="#56B4E9", height=0.6)
    left.hlines(places, [r["low"] for r in records], [r["high"] for r in records], color="black", linewidth=1.5)
    left.set_xlabel("target tokens/s")
    left.set_yticks(places, [r["label"] for r in records])
    left.invert_yaxis()
    right.plot([r["ratio"] for r in records], places, "o", color="tab:blue", label="here")
    paper = [(r["paper_ratio"], place) for place, r in enumerate(records) if r["paper_ratio"] is not None]
    if paper:
        right.plot(*zip(*paper, strict=True), "x", color="tab:red", label="paper")
    right.axvline(1.0, color="black", linewidth=0.8)
    right.set_xlabel("ratio to the first row")
    right.legend(loc="best")
    figure.suptitle("Decoding speed (Wei et al. 2020, Table 2)", fontsize=10)
