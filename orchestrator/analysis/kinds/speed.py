"""Speed of training and decoding relative to the first row. All rows are measured in one run, interleaved: A, B, C, B, C, A, ...

Each row trains its real model by a training's updates, on batches of its corpus, with learning rate 0 to keep the weights, and decodes test
sentences with its own search. Wei et al. 2020, Table 2: batch=32. RESULTS/speed keeps the rates of all rounds for tables.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from models.transformer import Transformer, count_parameters
from orchestrator import cpu
from orchestrator.analysis.base import Analysis, AnalysisContext, Subject, register
from orchestrator.cost.estimate import machine
from orchestrator.decoding.translate import FullLength, decode_corpus
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.weights import copy_into
from orchestrator.report.figures import FOLDER, ratio_of
from orchestrator.specs.base import Positive
from orchestrator.specs.schema import DecodeSpec, Schedule
from orchestrator.specs.table import number
from orchestrator.training.batches import Update, UpdateLoader
from orchestrator.training.runtime import Runtime, best_device, clock
from orchestrator.training.trainer import Trainer

WORKS = ("train", "decode")
STILL = Schedule.model_construct(kind="fixed", lr=0.0, warmup=0, warmup_ratio=None)
OPTIONS: dict[str, Any] = {"rounds": (Positive, 5), "steps": (Positive, 4), "sentences": (Positive, 64), "batch": (Positive | None, None)}
"""rounds: the median is over them. steps, sentences: updates and translations of a round. batch: sentences decoded together."""
SHOWN = ["label", *(f"{work}_{name}" for work in WORKS for name in ("ratio", "low", "high", "paper")), "decode_tokens_per_second"]


@register("speed", options=OPTIONS, needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row with ratios to the first one. Raises UserError if a corpus is missing."""
    kind = "cpu" if best_device().type == "cpu" and all(s.spec.train.threads == 1 for s in context.subjects) else "wall"
    cases = [make_case(context, subject, kind) for subject in context.subjects]
    forced = measure(cases, context.options["rounds"])
    about = context.options | {"device": str(machine()["name"] or "cpu"), "clock": kind, "forced_length": forced}
    path = _save(context, cases, about)
    notes = [
        "measured in one run, rows in turns: {rounds} rounds of {steps} updates and {sentences} sentences, median (low, high: range over "
        "rounds); {clock} clock of {device}".format(**about),
        f"ratios are to {cases[0].subject.row.id}; above 1 is faster. Kept in {path.name} for tables",
    ]
    if forced:
        notes.append("not every row has trained weights here: every output is made as long as its source")
    lowest, highest = (pick(case.output_tokens for case in cases) for pick in (min, max))
    if lowest != highest:
        notes.append(f"outputs have {lowest:,} to {highest:,} tokens: a row that writes longer outputs decodes fewer sentences a second")
    return Analysis([_record(case, cases[0]) for case in cases], notes=notes, shown=SHOWN)


def _record(case: "Case", base: "Case") -> dict[str, Any]:
    decoding = statistics.median(case.rates("decode"))
    record: dict[str, Any] = case.subject.columns | {
        "weights": "trained" if case.trained else "fresh",
        "params": count_parameters(case.model),
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
            f"{work}_low": min(ratios),
            f"{work}_high": max(ratios),
            f"{work}_paper": round(paper / base_paper, 4) if paper and base_paper else None,
        }
    return record


def _save(context: AnalysisContext, cases: "list[Case]", about: dict[str, Any]) -> Path:
    """Writes RESULTS/speed/KEY16.json; a new measurement of the same rows, searches and batches on the same device replaces it."""
    rows = []
    for case in cases:
        subject, speeds = case.subject, {f"{work}_speed": [round(rate, 6) for rate in case.rates(work)] for work in WORKS}
        keys = {"train_key": subject.keys.train, "decode_key": subject.keys.decode}
        rows.append({"id": subject.row.id, "seed": subject.spec.seed} | keys | speeds)
    measured = [[row["train_key"] or row["id"], row["decode_key"]] for row in rows]
    key = digest({"device": about["device"], "batch": about["batch"], "rows": measured})
    return context.ledger.write_document(FOLDER, key, {"measured": time.strftime("%Y-%m-%dT%H:%M:%S"), **about, "rows": rows})


@dataclass
class Case:
    """One row, ready to train and to decode; every round does the same work.

    forced: force every output to the length of its source. batching: options of `decode_corpus`. seconds: of each round, by kind of work.
    """

    subject: Subject
    trainer: Trainer
    trained: bool
    sources: list[list[int]]
    search: DecodeSpec
    clock: str
    updates: list[Update] = field(default_factory=list)
    forced: bool = False
    batching: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {work: [] for work in WORKS})
    output_tokens: int = 0

    @property
    def model(self) -> Transformer:
        return self.trainer.model

    def train(self) -> float:
        cpu.use(self.subject.spec.train.threads)
        self.model.train()
        started = self._now()
        for update in self.updates:
            self.trainer.train_step(update, STILL)
        return self._now() - started

    def decode(self) -> float:
        cpu.use(self.subject.spec.train.threads)
        model: nn.Module = FullLength(self.model) if self.forced else self.model
        search = self.search.model_copy(update={"max_ratio": 1.0, "max_extra": 0} if self.forced else {})
        started = self._now()
        outputs = decode_corpus(model.eval(), self.sources, search, **self.batching)
        seconds = self._now() - started
        self.output_tokens = sum(len(hypothesis.ids) + 1 for hypothesis in outputs)
        return seconds

    def rates(self, work: str) -> list[float]:
        count = len(self.updates if work == "train" else self.sources)
        return [count / seconds for seconds in self.seconds[work]]

    def _now(self) -> float:
        return clock(self.trainer.runtime.device, cpu=self.clock == "cpu")


def measure(cases: Sequence[Case], rounds: int) -> bool:
    """Fills `seconds` of all cases. Returns whether outputs were forced to the length of their sources (if any row lacks trained weights).

    An untimed warm-up round allocates the memory. Each round starts with another case, because the first one finds caches filled by others.
    """
    forced = not all(case.trained for case in cases)
    for case in cases:
        case.forced = forced
    for current in range(-1, rounds):
        first = max(current, 0) % len(cases)
        for work in WORKS:
            for case in (*cases[first:], *cases[:first]):
                seconds = case.train() if work == "train" else case.decode()
                if current >= 0:
                    case.seconds[work].append(seconds)
    return forced


def make_case(context: AnalysisContext, subject: Subject, clock: str) -> Case:
    """Builds a case with `steps` updates and at most `sentences` sources spread over the whole test set.

    Without trained weights the model is freshly initialised. Raises UserError if all sources are empty.
    """
    prepared, spec, batch = context.prepared(subject), subject.spec, context.options["batch"]
    lines, most = prepared.sources(spec.score.test), context.options["sentences"]
    sources = [ids for ids in prepared.encode(lines[:: max(1, len(lines) // most)][:most]) if ids]
    if not sources:
        raise UserError(f"{subject.row.id}: test set {spec.score.test} has no sentence to decode")
    trained = subject.keys.train is not None and context.store(subject).has_weights()  # a run in a mirror has no tensors
    trainer = Trainer(spec, Runtime(device=best_device()), [], prepared, Store(context.cache_dir, ""))  # an update writes nothing
    if trained:
        copy_into(trainer.model, context.store(subject).weights(spec.decode.checkpoint))
    updates = list(islice(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed).updates(0, 0), context.options["steps"]))
    batching = {} if batch is None else {"batch_tokens": 1 << 40, "batch_sentences": batch}
    return Case(subject, trainer, trained, sources, spec.search, clock, updates, batching=batching)


def paper_speed(subject: Subject, column: str) -> float | None:
    """Returns the paper's absolute figure for a row, or None. An analysis row lists the training speeds of its rows in their order."""
    value = subject.row.expect.get(column)
    rows = [] if subject.analysis_row is None else subject.analysis_row.of
    if column == "train_speed" and subject.row.id in rows and len(subject.expect) == len(rows):
        value = list(subject.expect.values())[rows.index(subject.row.id)]
    return number(value)
