"""Resolves the targets of `analyse`: the kinds of analysis, their rows, and which of these have a finished run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.analysis.base import Subject, kind_of
from orchestrator.cost import controls
from orchestrator.decoding.validation_bleu import tuned_decode
from orchestrator.errors import UserError, for_each
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_view import RunView
from orchestrator.report.find import Finder
from orchestrator.safe_text import log
from orchestrator.specs.analyses import KINDS
from orchestrator.specs.positions import nearest
from orchestrator.specs.row import Row, by_table, table_of
from orchestrator.sweeps.names import as_targets, sweep_name
from orchestrator.sweeps.options import RowOptions, quoted
from orchestrator.sweeps.plan import Data


def rows_of(targets: Sequence[str], options: RowOptions, seed: int = 1) -> list[Row]:
    """Returns the rows of all targets, in order and without duplicates. Raises UserError with the problems of all targets."""
    data, found = Data(options.data_dir, options.cache_dir), dict[str, Row]()
    for rows, left_out in for_each(
        lambda each: controls.resolve(each, data, sets=options.sets, profile=options.profile, seed=seed), targets
    ):
        log(*left_out)
        found |= {row.id: row for row in rows if row.id not in found}
    return list(found.values())


def kinds_of(rows: Sequence[Row], kind: str | None) -> dict[str, list[Row]]:
    """Maps each kind to its rows. If `kind` is given, it gets all rows.

    Otherwise each row's `analysis` decides; if there is only one kind, rows without one belong to it. Raises UserError if no row names one.
    """
    names = [kind] if kind is not None else list(dict.fromkeys(row.analysis for row in rows if row.analysis is not None))
    if not names:
        raise UserError(f"{rows[0].id}: names no analysis; give --kind: {nearest('', KINDS)}")
    return {name: list(rows) if len(names) == 1 else [row for row in rows if row.analysis == name] for name in names}


def group(kind: str, rows: Sequence[Row], options: RowOptions, ledger: Ledger, seed: int = 1) -> tuple[list[Subject], list[str]]:
    """Returns the subjects of one analysis without duplicates: rows that run, and for analysis rows those in their `of`.

    The second list has a line for each row without a finished run or weights. Raises UserError if no subject is left.
    """
    finder, needs = Finder(ledger, Data(options.data_dir)), kind_of(kind)
    subjects: dict[str, Subject] = {}
    left_out: dict[str, str] = {}
    for row, analysis_row in _expand(rows, options, seed):
        if row.id in subjects or row.id in left_out:
            continue
        if needs.over_seeds:
            done = [o.seed for o in finder.outcomes(row, [seed]) if o.status == "done"]
            row = row.at(seed if seed in done or not done else done[0])
        keys = finder.keys(row) or Keys(None, None, None)
        name = f"{row.id} seed {seed}"
        if needs.needs_runs and (problem := _unfinished(row, keys, ledger)) is not None:
            asked = "" if seed == 1 else f" --seed {seed}"
            left_out[row.id] = f"{name}: {problem}; run it first: nmt-ablate run{quoted([as_targets(row)[1]])}{asked}{options.arguments}"
        elif needs.needs_weights and not (keys.train and Store(ledger.run_dir(keys.train), keys.train).has_weights()):
            left_out[row.id] = f"{name}: its weights are not in {ledger.root} (published results hold none)"
        else:
            spec = row.run_spec.model_copy(update={"decode": tuned_decode(row.run_spec.decode, keys, ledger)})
            subjects[row.id] = Subject(row, keys, _label(row, analysis_row), analysis_row, spec)
    if not subjects:
        nothing = f"{rows[0].id}: found no row to analyse; expected rows that run, or an analysis of some"
        raise UserError(*(left_out.values() or [nothing]))
    return list(subjects.values()), list(left_out.values())


def _expand(rows: Sequence[Row], options: RowOptions, seed: int) -> Iterator[tuple[Row, Row | None]]:
    """Yields (row that runs, analysis row that names it or None)."""
    for row in rows:
        if row.kind == "run":
            yield row, None
        # an address in the row's own table is looked up in its file, which need not lie in `search_spaces`
        table = f"{table_of(row.id)}/"
        for address in row.of:
            here = address.startswith(table) and Path(row.source_file).is_file()
            target = f"{row.source_file}#{address.removeprefix(table)}" if here else address
            yield from ((other, row) for other in rows_of([target], options, seed) if other.spec is not None)


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


def folder_name(
    rows: Sequence[Row], options: RowOptions, seed: int = 1, settings: Sequence[str] = (), *, several_targets: bool = False
) -> str:
    """Returns a stable folder name: the row, table or papers, the profile, a digest of the other choices, and the seed.

    several_targets: whether the rows may be only part of a table, in which case their ids are part of the digest.
    """
    tables = list(by_table(rows))
    papers = "+".join(dict.fromkeys(table.partition("/")[0] for table in tables))[:60]
    name = rows[0].id if len(rows) == 1 else tables[0] if len(tables) == 1 else papers
    ids = [row.id for row in rows] if several_targets or len(tables) > 1 else []
    name = sweep_name(name, options.profile, [*(options.sets or []), *settings, *ids]) + (f"-seed{seed}" if seed != 1 else "")
    return name.replace("/", "-")
