"""Input (`AnalysisContext`, `Subject`) and output (`Analysis`) shared by all analyses, and the registry of their kinds.

A kind is a function that a module of `orchestrator.analysis.kinds` registers:

@register("length", options={"edges": (Annotated[Rungs, Split], [15, 30, 45])})
def analyse(context: AnalysisContext) -> Analysis: ...
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from pydantic import BeforeValidator, ConfigDict, create_model

from models.transformer import Transformer
from orchestrator import cpu
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError, raise_all
from orchestrator.ledger import component_sources
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger, Record
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.weights import CorruptError, copy_into
from orchestrator.report.find import Finder
from orchestrator.specs.analyses import KINDS, MODULES
from orchestrator.specs.messages import valid
from orchestrator.specs.positions import Document, Position, nearest, shown
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.names import as_targets
from orchestrator.sweeps.options import quoted
from orchestrator.sweeps.plan import Data
from orchestrator.sweeps.row import load_model
from orchestrator.tracking.history import number

Records = list[dict[str, Any]]
Split = BeforeValidator(lambda text: text.split(","))
"""Reads an option such as `edges=10,20` as a list."""


@dataclass(frozen=True)
class Subject:
    """One row with one seed. The fields of `keys` are None if the row has no data, which only kinds that need no runs accept.

    label: the name in tables and legends. analysis_row: the analysis row whose `of` names this row. tuned: the spec with the tuned length
    penalty; `row` holds the original spec, which identifies the results.
    """

    row: Row
    keys: Keys
    label: str
    analysis_row: Row | None = None
    tuned: RunSpec | None = None

    @property
    def spec(self) -> RunSpec:
        return self.tuned or self.row.run_spec

    @property
    def train_key(self) -> str:
        assert self.keys.train is not None, f"{self.row.id} has no data"
        return self.keys.train

    @property
    def columns(self) -> dict[str, Any]:
        return {"row": self.row.id, "label": self.label, "seed": self.spec.seed}

    @property
    def name(self) -> str:
        return f"{self.row.id} seed {self.spec.seed}"

    @property
    def expect(self) -> Mapping[str, Any]:
        """The paper's figures, from the analysis row if there is one, else from the row itself."""
        return (self.analysis_row or self.row).expect


@dataclass(frozen=True)
class AnalysisContext:
    """The inputs of an analysis of one seed. `options` maps each option of the kind to its value, defaults included."""

    subjects: list[Subject]
    ledger: Ledger
    data_dir: Path | None
    cache_dir: Path
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def finder(self) -> Finder:
        return Finder(self.ledger, Data(self.data_dir, self.cache_dir))

    def each_row(self, analyse_row: Callable[["AnalysisContext", Subject, list[str]], Records]) -> tuple[Records, list[str]]:
        """Returns (the records of all rows, the notes that `analyse_row` appended). Raises UserError with the notes without a record."""
        notes: list[str] = []
        records = [record for subject in self.subjects for record in analyse_row(self, subject, notes)]
        if not records:
            raise UserError(*dict.fromkeys(notes))
        return records, list(dict.fromkeys(notes))

    def prepared(self, subject: Subject) -> Prepared:
        """Returns the prepared corpus of the subject. Raises UserError if its text is missing."""
        return prepare(subject.spec.data, self.data_dir, self.cache_dir)

    def store(self, subject: Subject) -> Store:
        """Returns the subject's tensors on disk, for reading only. They are in the root of the ledger, never in its mirrors."""
        return Store(self.ledger.run_dir(subject.train_key), subject.train_key)

    def model(self, subject: Subject) -> Transformer:
        """Returns the trained model in eval mode on the CPU. UserError: text or weights are missing, or a component changed."""
        component_sources.check_unchanged(subject.name, subject.train_key, self.ledger)
        cpu.use(subject.spec.train.threads)
        return load_model(subject.spec, self.prepared(subject), self.store(subject), torch.device("cpu"))

    def snapshots(self, subject: Subject) -> dict[int, Path]:
        """Returns update -> file of the weight snapshots that the run kept (`train.snapshots`)."""
        return {int(path.stem.removeprefix("step-")): path for path in self.store(subject).snapshots()}

    def load_snapshot(self, subject: Subject, path: Path, model: Transformer) -> None:
        """Gives the model the weights of a snapshot. Raises UserError for a corrupt file."""
        try:
            copy_into(model, self.store(subject).load_snapshot(path))
        except CorruptError as error:
            raise UserError(f"{path}: {error}") from None

    def decoded(self, subject: Subject) -> Record:
        """Returns `hypotheses` (text) and `tokens` of the row's own test set, one per sentence. Raises UserError if there are none."""
        record = None if subject.keys.decode is None else self.ledger.read_decode(subject.train_key, subject.keys.decode)
        if record is None:
            missing, row = f"{subject.name}: its translations are not in {self.ledger.root}", quoted([as_targets(subject.row)[1]])
            raise UserError(f"{missing}; nmt-ablate run{row} makes them, or repro with --into where they were left out")
        return record

    def curve(self, subject: Subject, metric: str) -> list[tuple[int, float]]:
        points = [(report["step"], number(report.get(metric))) for report in self.ledger.history(subject.train_key)]
        return [(int(step), value) for step, value in points if value is not None]


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis. `records` are the rows of the data file; a missing key is an empty cell.

    draw: fills an empty figure and may resize it; None if there is nothing to draw. notes: caveats for the reader. summary: lines of text
    below the table on the terminal. shown: columns of that table (default: all). heads: column -> its head, where they differ.
    width: of the figure in a paper, `column` (of one panel) or `page`.
    """

    records: Records
    draw: Callable[[Figure, Records], object] | None = None
    notes: list[str] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)
    shown: list[str] | None = None
    heads: dict[str, str] = field(default_factory=dict)
    width: str = "page"

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for record in self.records for name in record))


Analyse = Callable[[AnalysisContext], Analysis]


@dataclass(frozen=True)
class Kind:
    """A kind of analysis.

    options: name -> (type, default), which pydantic reads from texts.
    needs_runs: skip rows without a finished run. needs_weights: skip rows without weights in the ledger's root, as in published results.
    over_seeds: the kind reads all seeds of a row, so that any finished seed stands for it.
    """

    analyse: Analyse
    options: dict[str, Any]
    needs_runs: bool = True
    needs_weights: bool = False
    over_seeds: bool = False


_registered: dict[str, Kind] = {}


def register(name: str, *, options: dict[str, Any] | None = None, **needs: bool) -> Callable[[Analyse], Analyse]:
    """Registers a kind. needs: other fields of `Kind`."""

    def add(analyse: Analyse) -> Analyse:
        _registered[name] = Kind(analyse, options or {}, **needs)
        return analyse

    return add


def kind_of(name: str) -> Kind:
    """Imports the module of a kind and returns the kind. Raises UserError for an unknown name."""
    if name not in KINDS:
        raise UserError(f"--kind {shown(name)}: {nearest(name, KINDS)}")
    import_module(f"orchestrator.analysis.kinds.{MODULES[name]}")
    return _registered[name]


def options_of(kind: str, given: list[str]) -> dict[str, Any]:
    """Returns the options of the kind from `KEY=VALUE` texts. Raises UserError with a line for each unknown option and each bad value."""
    raise_all(f"--option {shown(text)}: found no value; expected KEY=VALUE" for text in given if not text.partition("=")[2])
    document = Document("", {name: value for name, _, value in (text.partition("=") for text in given)})
    document.home = Position(f"--option of {kind}", ())
    model = create_model("Options", __config__=ConfigDict(extra="forbid"), **kind_of(kind).options)
    return valid(document, model).model_dump()


def group_by(records: Iterable[dict[str, Any]], *columns: str) -> dict[Any, Records]:
    """Groups records by the values of the columns (a tuple if there are several), in order of appearance."""
    groups: dict[Any, Records] = {}
    key = itemgetter(*columns)
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def table_of(title: str, values: "pd.Series[float] | pd.DataFrame", form: str = "{:.3f}") -> list[str]:
    """Returns a title and the lines of a table for the terminal; the last level of a series' index becomes the columns."""
    frame = values.unstack(sort=False) if isinstance(values, pd.Series) else values
    return [title, *frame.to_string(float_format=form.format, na_rep="").splitlines()]
