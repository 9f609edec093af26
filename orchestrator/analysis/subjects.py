"""Resolves the targets of `analyse`: the kinds of analysis, their rows, and which of these have a finished run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from orchestrator.analysis.base import Subject, kind_of
from orchestrator.cost import controls
from orchestrator.decoding.validation_bleu import tuned_decode
from orchestrator.errors import UserError, for_each
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_view import RunView
from orchestrator.report.find import Finder
from orchestrator.safe_text import log
from orchestrator.specs.analyses import KINDS
from orchestrator.specs.positions import nearest
from orchestrator.specs.row import Row, by_table, table_of
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data


@dataclass(frozen=True)
class RowSelection:
    """How the rows of every target are resolved, as for `run`."""

    options: RowOptions = field(default_factory=RowOptions)
    seed: int = 1

    @cached_property
    def data(self) -> Data:
        return Data(self.options.data_dir, self.options.cache_dir)

    def rows(self, target: str) -> list[Row]:
        rows, left_out = controls.resolve(target, self.data, sets=self.options.sets, profile=self.options.profile, seed=self.seed)
        log(*left_out)
        return rows


def rows_of(targets: Sequence[str], selection: RowSelection) -> list[Row]:
    """Returns the rows of all targets, in order and without duplicates. Raises UserError with the problems of all targets."""
    rows: dict[str, Row] = {}
    for row in chain.from_iterable(for_each(selection.rows, targets)):
        rows.setdefault(row.id, row)
    return list(rows.values())


def kinds_of(rows: Sequence[Row], kind: str | None) -> dict[str, list[Row]]:
    """Maps each kind to its rows. If `kind` is given, it gets all rows.

    Otherwise each row's `analysis` decides; if there is only one kind, rows without one belong to it. Raises UserError if no row names one.
    """
    names = [kind] if kind is not None else list(dict.fromkeys(row.analysis for row in rows if row.analysis is not None))
    if not names:
        raise UserError(f"{rows[0].id}: names no analysis; give --kind: {nearest('', KINDS)}")
    return {name: list(rows) if len(names) == 1 else [row for row in rows if row.analysis == name] for name in names}


def group(kind: str, rows: Sequence[Row], selection: RowSelection, ledger: Ledger) -> tuple[list[Subject], list[str]]:
    """Returns the subjects of one analysis without duplicates: rows that run, and for analysis rows those in their `of`.

    The second list has a line for each row without a finished run or weights. Raises UserError if no subject is left.
    """
    finder, needs = Finder(ledger, Data(selection.options.data_dir)), kind_of(kind)
    subjects: dict[str, Subject] = {}
    left_out: dict[str, str] = {}
    for row, analysis_row in _expand(rows, selection):
        if row.id in subjects or row.id in left_out:
            continue
        keys = finder.keys(row) or Keys(None, None, None)
        name = f"{row.id} seed {selection.seed}"
        if needs.needs_runs and (problem := _unfinished(row, keys, ledger)) is not None:
            seed = "" if selection.seed == 1 else f" --seed {selection.seed}"
            left_out[row.id] = f"{name}: {problem}; run it first: nmt-ablate run {row.id}{seed}{selection.options.arguments}"
        elif needs.needs_weights and not (keys.train and Store(ledger.run_dir(keys.train), keys.train).has_weights()):
            left_out[row.id] = f"{name}: its weights are not in {ledger.root} (published results hold none)"
        else:
            spec = row.run_spec.model_copy(update={"decode": tuned_decode(row.run_spec.decode, keys, ledger)})
            subjects[row.id] = Subject(row, keys, _label(row, analysis_row), analysis_row, spec)
    if not subjects:
        nothing = f"{rows[0].id}: found no row to analyse; expected rows that run, or an analysis of some"
        raise UserError(*(left_out.values() or [nothing]))
    return list(subjects.values()), list(left_out.values())


def _expand(rows: Sequence[Row], selection: RowSelection) -> Iterator[tuple[Row, Row | None]]:
    """Yields (row that runs, analysis row that names it or None)."""
    for row in rows:
        if row.kind == "run":
            yield row, None
        # an address in the row's own table is looked up in its file, which need not lie in `search_spaces`
        table = f"{table_of(row.id)}/"
        for address in row.of:
            here = address.startswith(table) and Path(row.source_file).is_file()
            target = f"{row.source_file}#{address.removeprefix(table)}" if here else address
            yield from ((other, row) for other in selection.rows(target) if other.spec is not None)


def _label(row: Row, analysis_row: Row | None) -> str:
    """Returns the analysis row's label if it names only this row and has a label other than its address, else the row's own."""
    if analysis_row is None or len(analysis_row.of) != 1 or analysis_row.id.endswith(f"/{analysis_row.label}"):
        return row.label or row.id
    return analysis_row.label or row.label or row.id


def _unfinished(row: Row, keys: Keys, ledger: Ledger) -> str | None:
    if keys.train is None or keys.score is None:
        return f"corpus {row.run_spec.data.corpus} is absent (--data-dir) and no run is in {ledger.root}"
    status = RunView.read(ledger, {"": keys}).status
    known = {"new": f"found no run in {ledger.root}", "trained": "its run is not scored", "done": None}
    return known.get(status, f"its run is {status}")


def folder_name(rows: Sequence[Row], selection: RowSelection, options: Sequence[str] = (), *, several_targets: bool = False) -> str:
    """Returns a stable folder name: the row, table or papers, the profile, the seed, and a digest of the other choices.

    several_targets: whether the rows may be only part of a table, in which case their ids are part of the digest.
    """
    tables = list(by_table(rows))
    papers = "+".join(dict.fromkeys(table.partition("/")[0] for table in tables))[:60]
    name = rows[0].id if len(rows) == 1 else tables[0] if len(tables) == 1 else papers
    ids = [row.id for row in rows] if several_targets or len(tables) > 1 else []
    choices = [ids, sorted(selection.options.sets or []), sorted(options)]
    profile = f"@{selection.options.profile}" if selection.options.profile else ""
    suffix = profile + (f"-seed{selection.seed}" if selection.seed != 1 else "")
    return (name + suffix).replace("/", "-") + (f"+{digest(choices)[:8]}" if any(choices) else "")
