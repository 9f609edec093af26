"""Resolves the targets of `analyse`: the kinds of analysis, their rows, and which of these have a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.analysis import registry
from orchestrator.analysis.base import Subject
from orchestrator.cost import controls
from orchestrator.decoding.length_penalty import tuned_spec
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_view import RunView
from orchestrator.report.find import Finder
from orchestrator.safe_text import log
from orchestrator.specs.analyses import KINDS
from orchestrator.specs.positions import nearest
from orchestrator.specs.row import Row
from orchestrator.sweeps.plan import Data


@dataclass(frozen=True)
class RowSelection:
    """Options that apply to the rows of every target, as for `run`. data: what matched controls depend on."""

    sets: list[str] = field(default_factory=list)
    profile: str | None = None
    seed: int = 1
    data: Data = field(default_factory=lambda: Data(None), compare=False)

    def rows(self, target: str) -> list[Row]:
        rows, left_out = controls.resolve(target, self.data, sets=self.sets, profile=self.profile, seed=self.seed)
        for line in left_out:
            log(line)
        return rows


@dataclass(frozen=True)
class Group:
    """One analysis and its subjects. `left_out` has a line for each row without a finished run or weights."""

    kind: str
    subjects: list[Subject]
    left_out: list[str]


def rows_of(targets: Sequence[str], selection: RowSelection) -> list[Row]:
    """Returns the rows of all targets, in order and without duplicates. Raises UserError with the problems of all targets."""
    rows: dict[str, Row] = {}
    problems: list[str] = []
    for target in targets:
        try:
            for row in selection.rows(target):
                rows.setdefault(row.id, row)
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return list(rows.values())


def kinds_of(rows: Sequence[Row], kind: str | None) -> dict[str, list[Row]]:
    """Maps each kind to its rows. If `kind` is given, it gets all rows.

    Otherwise each row's `analysis` decides; if there is only one kind, rows without one belong to it. Raises UserError if no row names one.
    """
    if kind is not None:
        registry.get(kind)
        return {kind: list(rows)}
    names = list(dict.fromkeys(row.analysis for row in rows if row.analysis is not None))
    if not names:
        raise UserError(f"{rows[0].id}: names no analysis; give --kind: {nearest('', KINDS)}")
    if len(names) == 1:
        return {names[0]: list(rows)}
    return {name: [row for row in rows if row.analysis == name] for name in names}


def group(kind: str, rows: Sequence[Row], selection: RowSelection, ledger: Ledger, data_dir: Path | None, again: str) -> Group:
    """Returns the subjects of one analysis without duplicates: rows that run, and for analysis rows those in their `of`.

    again: options for the command, shown in messages, that runs a missing row. Raises UserError if no subject is left.
    """
    finder, needs = Finder(ledger, Data(data_dir)), registry.get(kind)
    subjects: dict[str, Subject] = {}
    left_out: list[str] = []
    for row, analysis_row in _expand(rows, selection):
        if row.id in subjects:
            continue
        assert row.spec is not None
        keys = finder.keys(row) or Keys(None, None, None)
        problem = _unfinished(row, keys, ledger) if needs.needs_runs else None
        if problem is not None:
            seed = "" if selection.seed == 1 else f" --seed {selection.seed}"
            left_out.append(f"{row.id} seed {selection.seed}: {problem}; run it first: nmt-ablate run {row.id}{seed}{again}")
        elif needs.needs_weights and not _has_weights(ledger, keys):
            left_out.append(f"{row.id} seed {selection.seed}: its weights are not in {ledger.root} (published results hold none)")
        else:
            subjects[row.id] = Subject(row, keys, _label(row, analysis_row), analysis_row, tuned_spec(row.spec, keys, ledger))
    left_out = list(dict.fromkeys(left_out))
    if not subjects:
        raise UserError(*(left_out or [f"{rows[0].id}: found no row to analyse; expected rows that run, or an analysis of some"]))
    return Group(kind, list(subjects.values()), left_out)


def _expand(rows: Sequence[Row], selection: RowSelection) -> Iterator[tuple[Row, Row | None]]:
    """Yields (row that runs, analysis row that names it or None)."""
    for row in rows:
        if row.spec is not None:
            yield row, None
        for address in row.of:
            yield from ((other, row) for other in selection.rows(_in_same_file(row, address)) if other.spec is not None)


def _in_same_file(row: Row, address: str) -> str:
    """Returns the address relative to the row's file if it is in the same table; this also works outside of `search_spaces`."""
    table = "/".join(row.id.split("/")[:2]) + "/"
    here = address.startswith(table) and Path(row.source_file).is_file()
    return f"{row.source_file}#{address.removeprefix(table)}" if here else address


def _label(row: Row, analysis_row: Row | None) -> str:
    """Returns the analysis row's label if it names only this row and has a label other than its address, else the row's own."""
    if analysis_row is None or len(analysis_row.of) != 1 or analysis_row.id.endswith(f"/{analysis_row.label}"):
        return row.label or row.id
    return analysis_row.label or row.label or row.id


def _unfinished(row: Row, keys: Keys, ledger: Ledger) -> str | None:
    """Returns why the row cannot be analysed, or None if it can."""
    assert row.spec is not None
    if keys.train is None or keys.score is None:
        return f"corpus {row.spec.data.corpus} is absent (--data-dir) and no run is in {ledger.root}"
    view = RunView.read(ledger, {"": keys})
    if view.status == "new":
        return f"found no run in {ledger.root}"
    if view.status == "trained":
        return "its run is not scored"
    return None if view.status == "done" else f"its run is {view.status}"


def _has_weights(ledger: Ledger, keys: Keys) -> bool:
    return keys.train is not None and Store(ledger.run_dir(keys.train), keys.train).has_weights()


def folder_name(rows: Sequence[Row], selection: RowSelection, options: Sequence[str] = (), *, several_targets: bool = False) -> str:
    """Returns a stable folder name: the row, table or papers, the profile, the seed, and a digest of the other choices.

    several_targets: whether the rows may be only part of a table, in which case their ids are part of the digest.
    """
    tables = list(dict.fromkeys("/".join(row.id.split("/")[:2]) for row in rows))
    if len(rows) == 1:
        name = rows[0].id
    elif len(tables) == 1:
        name = tables[0]
    else:
        name = "+".join(dict.fromkeys(table.partition("/")[0] for table in tables))[:60]
    ids = [row.id for row in rows] if several_targets or len(tables) > 1 else []
    choices = [ids, sorted(selection.sets), sorted(options)]
    suffix = (f"@{selection.profile}" if selection.profile else "") + (f"-seed{selection.seed}" if selection.seed != 1 else "")
    return (name + suffix).replace("/", "-") + (f"+{digest(choices)[:8]}" if any(choices) else "")
