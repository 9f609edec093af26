"""`table`: a paper's table with our figures beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import CACHE, RESULTS, CacheDir, DataDir, Profile, Results, Sets

if TYPE_CHECKING:
    from orchestrator.report.find import Finder
    from orchestrator.report.table import Table
    from orchestrator.scoring.significance.compare import Comparer
    from orchestrator.specs.row import Row


def register(app: typer.Typer) -> None:
    app.command("table")(table)


def table(
    target: Annotated[str, typer.Argument(metavar="TABLE", help="paper/table, FILE.yaml, or a folder of search_spaces: all its tables.")],
    form: Annotated[str, typer.Option("--format", help="md, json, latex or html.")] = "md",
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="ROW", help="Compare with this row; default: the one that a row starts from.")
    ] = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
) -> None:
    """A paper's table with its number beside ours. Rows that did not run say so; stopped rows show no figure.

    Marks of significance need the prepared corpus (--cache-dir), or the tests that `analyse --kind significance` keeps.

    Example:  nmt-ablate table dou2018/table1 --format md
    """
    import sys

    from orchestrator.cli.options import given, ledger, need_folder, note
    from orchestrator.errors import UserError
    from orchestrator.report.find import Finder
    from orchestrator.report.formats import FORMATS, several
    from orchestrator.scoring.significance.compare import Comparer
    from orchestrator.specs.positions import nearest, shown
    from orchestrator.specs.rows import resolve
    from orchestrator.sweeps.plan import Data

    if form not in FORMATS:
        raise UserError(f"--format {shown(form)}: {nearest(form, FORMATS)}")
    need_folder(data_dir, "--data-dir")
    tables: dict[str, list[Row]] = {}
    for row in resolve(target, sets=sets, profile=profile):
        tables.setdefault("/".join(row.id.split("/")[:2]), []).append(row)
    if baseline is not None and len(tables) > 1:
        raise UserError(f"--baseline {shown(baseline)}: {shown(target)} has {len(tables)} tables; expected one")
    finder = Finder(ledger(Path(results)), Data(data_dir, cache_dir))
    comparer = Comparer(finder.ledger, finder.prepared)
    words = given(profile, sets, results)
    made = [
        _make(target if len(tables) == 1 else address, address, rows, finder, comparer, baseline, profile, list(sets or []), words)
        for address, rows in tables.items()
    ]
    for line in dict.fromkeys(line for each in made for line in each.warnings):
        note(f"warning: {line}")
    sys.stdout.write(several(made, form))


def _make(
    target: str,
    address: str,
    rows: list[Row],
    finder: Finder,
    comparer: Comparer,
    baseline: str | None,
    profile: str | None,
    sets: list[str],
    given: str,
) -> Table:
    """One table. UserError for a baseline that is not in it."""
    from orchestrator.errors import UserError
    from orchestrator.report.table import make
    from orchestrator.specs.index import find
    from orchestrator.specs.positions import nearest, shown
    from orchestrator.specs.rows import sweep_of

    runs = {row.id.removeprefix(f"{address}/"): row.id for row in rows if row.kind == "run"}
    if baseline is not None and baseline.removeprefix(f"{address}/") not in runs:
        raise UserError(f"--baseline {shown(baseline)}: no such row of {address}; {nearest(baseline.removeprefix(f'{address}/'), runs)}")
    base = None if baseline is None else runs[baseline.removeprefix(f"{address}/")]
    scale = ", ".join([f"profile {profile}"] * bool(profile) + [f"--set {text}" for text in sets])
    full = profile is None and all(text.startswith("data.vocab.") for text in sets)
    columns, seeds = find(target).table.columns, sweep_of(target).seeds
    return make(address, rows, finder, columns, seeds, scale, base=base, comparer=comparer, full_size=full, given=given)
