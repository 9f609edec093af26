"""What every analysis is given and what it gives back.

A kind is a module with `def analyse(context: Context) -> Analysis`, named in `KINDS` and imported when it is asked for. It may say

    OPTIONS = {"edges": "15,30,45"}     options it takes (`--option edges=10,20`) -> their defaults, as text
    NEEDS_RUNS = False                  rows without a finished run are subjects too (default: they are named and left out)
    NEEDS_WEIGHTS = True                rows whose weights are not here (published results hold none) are named and left out
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from models.transformer import Transformer
    from orchestrator.data.store import Prepared
    from orchestrator.ledger.keys import Keys
    from orchestrator.ledger.results import Ledger, Record
    from orchestrator.ledger.run_files import Store
    from orchestrator.specs.row import Row
    from orchestrator.specs.schema import RunSpec

KINDS = {
    "length": "orchestrator.analysis.length",
    "exploitation": "orchestrator.analysis.exploitation",
    "hops": "orchestrator.analysis.hops",
    "steps": "orchestrator.analysis.steps",
    "accuracy": "orchestrator.analysis.accuracy",
    "layer-attention": "orchestrator.analysis.layer_attention",
    "properties": "orchestrator.analysis.properties",
    "grid": "orchestrator.analysis.grid",
    "probing": "orchestrator.analysis.probing",
    "significance": "orchestrator.analysis.significance",
    "speed": "orchestrator.analysis.speed",
    "inference-speed": "orchestrator.analysis.inference_speed",
    "degradation": "orchestrator.analysis.degradation",
    "difficulty": "orchestrator.analysis.difficulty",
    "attention-maps": "orchestrator.analysis.attention_maps",
    "gradient-norms": "orchestrator.analysis.gradient_norms",
    "lead": "orchestrator.analysis.lead",
    "loss-curves": "orchestrator.analysis.loss_curves",
    "embedding-size": "orchestrator.analysis.embedding_size",
    "parameters": "orchestrator.analysis.parameters",
    "asha": "orchestrator.analysis.asha",
}
"""Kind -> module."""


@dataclass(frozen=True)
class Subject:
    """One row, at its seed, that is looked at. `keys` are None where the row has no data (only where NEEDS_RUNS is False).

    label: what tables and legends call it. asked: the analysis row through whose `of` it came, else None.
    settled: the row's spec with the length penalty that was tuned. `row` stays as it is: its results are found by its own spec.
    """

    row: Row
    keys: Keys
    label: str
    asked: Row | None = None
    settled: RunSpec | None = None

    @property
    def spec(self) -> RunSpec:
        """What it does, to do it again."""
        if self.settled is not None:
            return self.settled
        assert self.row.spec is not None, f"{self.row.id} is no row that runs"
        return self.row.spec

    @property
    def train_key(self) -> str:
        assert self.keys.train is not None, f"{self.row.id} has no data"
        return self.keys.train


@dataclass(frozen=True)
class Context:
    """All that an analysis may read. `options`: every option of the kind, defaults filled in, as text."""

    subjects: list[Subject]
    ledger: Ledger
    data_dir: Path | None
    cache_dir: Path
    options: dict[str, str] = field(default_factory=dict)

    def prepared(self, subject: Subject) -> Prepared:
        """The subject's corpus. UserError where its text is absent."""
        from orchestrator.data.prepare import prepare

        return prepare(subject.spec.data, self.data_dir, self.cache_dir)

    def store(self, subject: Subject) -> Store:
        """The subject's tensors on disk, to be read only; they lie in the ledger's own root, not in its mirrors."""
        from orchestrator.ledger.run_files import Store

        return Store(self.ledger.run_dir(subject.train_key), subject.train_key)

    def model(self, subject: Subject) -> Transformer:
        """The trained model in eval mode, on the CPU. UserError where the text or the weights are gone."""
        import torch

        from orchestrator import cpu
        from orchestrator.sweeps.row import load_model

        cpu.use(subject.spec.train.threads)
        return load_model(subject.spec, self.prepared(subject), self.store(subject), torch.device("cpu"))

    def decoded(self, subject: Subject) -> Record:
        """The decoding of the row's own test set: `hypotheses` (text) and `tokens`, one a sentence. UserError where there is none."""
        found = None if subject.keys.decode is None else self.ledger.read_decode(subject.train_key, subject.keys.decode)
        if found is None:
            raise UserError(f"{subject.row.id} seed {subject.spec.seed}: its translations are not in {self.ledger.root}")
        return found

    def scored(self, subject: Subject) -> Record | None:
        """The score record of the row's own test set."""
        return None if subject.keys.score is None else self.ledger.read_score(subject.train_key, subject.keys.score)


@dataclass(frozen=True)
class Analysis:
    """What came out: `records` are the data file, one mapping a line, keyed by `columns` (a column may be absent: empty cell).

    draw: fills an empty matplotlib Figure (and may resize it), None where there is nothing to draw. notes: what a reader must know.
    summary: lines of plain text below the table on the terminal. shown: columns of that table (default: all).
    kept: files that it wrote beside the results, in the ledger's root, for `table` to read.
    """

    kind: str
    columns: list[str]
    records: list[dict[str, Any]]
    draw: Callable[[Figure], None] | None = None
    notes: list[str] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)
    shown: list[str] | None = None
    kept: list[Path] = field(default_factory=list)


def module_of(kind: str) -> ModuleType:
    """UserError for a kind that is not known."""
    if kind not in KINDS:
        raise UserError(f"--kind {shown(kind)}: {nearest(kind, KINDS)}")
    return import_module(KINDS[kind])


def options_of(kind: str, given: list[str]) -> dict[str, str]:
    """`key=value` texts over the kind's defaults. UserError for an option that the kind does not take, and for one without a value."""
    options: dict[str, str] = dict(getattr(module_of(kind), "OPTIONS", {}))
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise UserError(f"--option {shown(text)}: found no value; expected KEY=VALUE")
        if name not in options:
            raise UserError(f"--option {shown(text)}: {shown(name)} is no option of {kind}; {nearest(name, options)}")
        options[name] = value
    return options


def needs_runs(kind: str) -> bool:
    return bool(getattr(module_of(kind), "NEEDS_RUNS", True))


def needs_weights(kind: str) -> bool:
    return bool(getattr(module_of(kind), "NEEDS_WEIGHTS", False))


def numbers(name: str, text: str, *, least: int = 0) -> list[int]:
    """`15,30,45` -> [15, 30, 45]. UserError naming the option for anything but whole numbers >= `least`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 and int(part) >= least for part in parts):
        raise UserError(f"--option {name}={shown(text)}: expected whole numbers >= {least}, as in {name}=1,2")
    return [int(part) for part in parts]


def choice(name: str, text: str, known: tuple[str, ...]) -> str:
    """UserError naming the option for a value that is not known."""
    if text not in known:
        raise UserError(f"--option {name}={shown(text)}: {nearest(text, known)}")
    return text
