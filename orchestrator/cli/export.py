"""`export` and `repro`: one trained row, taken out of the orchestrator or trained again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import CACHE, RESULTS, AsJson, CacheDir, DataDir, Profile, Results, Seed, Sets
from orchestrator.files.folders import parser

if TYPE_CHECKING:
    from orchestrator.lifecycle.reproduce import Reproduced
    from orchestrator.specs.row import Row


def register(app: typer.Typer) -> None:
    app.command("export")(export)
    app.command("repro")(repro)


def export(
    row: Annotated[str, typer.Argument(metavar="ROW|FILE", help="A row that has been trained.")],
    to: Annotated[Path, typer.Option("--to", parser=parser("--to"), help="The folder to make; new or empty.")],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
    as_json: AsJson = False,
) -> None:
    """A trained row as a folder that translates by itself: weights, vocabulary, config, capsule, model card, script and code.

    It gives the same words as `translate` does on an equal machine, and needs torch but no part of this program.

    Example:  nmt-ablate export sweeps/multi30k-first/baseline --data-dir DIR --to baseline-model
    """
    from orchestrator.cli.options import emit, ledger, need_folder, note
    from orchestrator.files.folders import new_folder

    need_folder(data_dir, "--data-dir")
    need_folder(results, "--results")
    new_folder(to, "--to")
    found = one_row(row, seed, profile, sets)
    assert found.spec is not None

    from orchestrator.data.prepare import prepare
    from orchestrator.lifecycle.export_row import export_row
    from orchestrator.sweeps.options import ExecutionOptions
    from orchestrator.sweeps.tasks import make_tasks

    options = ExecutionOptions(name=found.id, results=results, data_dir=data_dir, cache_dir=cache_dir)
    task = make_tasks([found], [found.spec.seed], options)[-1]
    made = export_row(found, task, prepare(found.spec.data, data_dir, cache_dir), ledger(results), to)
    if as_json:
        about = {"folder": str(to), "id": found.id, "seed": task.seed, "weights_sha256": made.weights_sha256, "files": made.files}
        emit(about | {"scores": made.about["scores"], "keys": task.keys})
    note(f"{to}: {len(made.files)} files, {sum(made.files.values())} bytes; weights {made.weights_sha256}")
    note(f"try:  python {to / 'translate.py'} < source.txt")


def repro(
    target: Annotated[str, typer.Argument(metavar="ROW|FILE|KEY", help="A finished row, or the train key of a run (12 digits or more).")],
    seed: Seed = None,
    profile: Profile = None,
    sets: Sets = None,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    cache_dir: CacheDir = CACHE,
    into: Annotated[
        Path | None,
        typer.Option("--into", parser=parser("--into"), help="Where to run it, and keep it: new, or an interrupted repro of it."),
    ] = None,
    tolerance_bleu: Annotated[float, typer.Option("--tolerance-bleu", min=0, help="Points, where bits are not promised.")] = 0.5,
    tolerance_nll: Annotated[float, typer.Option("--tolerance-nll", min=0, help="Nats a token, where bits are not promised.")] = 0.02,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for anything but the same bits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a recorded row again from its spec, in a fresh place, with the rows it starts from, and compare with what was recorded.

    Verdicts: `same bits` (exit 0), expected at equal code, versions, device and threads; `within tolerance` (0) where the capsules
    differ; `bits differ` (1) where nothing in them explains it; `outside tolerance` (1). Parts of the capsule that differ are printed.

    Example:  nmt-ablate repro quickstart/fusion/baseline --seed 2
    """
    from orchestrator.cli.options import console, emit, ledger, need_folder, note, stdout_to_stderr

    need_folder(data_dir, "--data-dir")
    from orchestrator.errors import UserError
    from orchestrator.lifecycle import recorded
    from orchestrator.lifecycle.reproduce import fresh_place, reproduce
    from orchestrator.lifecycle.verdict import Tolerance

    book = ledger(results)
    if recorded.is_key(target):
        if seed is not None or profile is not None or sets:
            raise UserError(f"{target}: a train key says seed, profile and overrides already; expected none of these options")
        run = recorded.by_key(book, target)
    else:
        run = recorded.of_row(book, one_row(target, seed, profile, sets), data_dir)
    key = run.keys[run.row.id].train or ""
    for line in run.notes:
        note(line)
    with fresh_place(results, into, key) as place, stdout_to_stderr():
        found = reproduce(run, book, place, data_dir, cache_dir, Tolerance(tolerance_bleu, tolerance_nll))
    verdict = found.verdict
    if as_json:
        emit(_as_json(found, run.row.id, key, run.notes, into))
    else:
        for table in _tables(found):
            console().print(table)
    for line in verdict.reasons:
        note(f"bits are not promised: {line}" + (" differs" if " " not in line else ""))
    note(f"{run.row.id} seed {found.verdicts[-1][0].seed}: {verdict.verdict}")
    if not verdict.reproduced or (strict and verdict.verdict != "same bits"):
        raise typer.Exit(1)


def _as_json(found: Reproduced, address: str, key: str, notes: list[str], into: Path | None) -> dict[str, Any]:
    runs = [
        {"id": task.id, "seed": task.seed, "verdict": v.verdict, "measures": v.measures, "capsule": v.capsule, "reasons": v.reasons}
        for task, v in found.verdicts
    ]
    about = {"id": address, "train_key": key, "verdict": found.verdict.verdict, "reproduced": found.verdict.reproduced}
    return about | {"into": None if into is None else str(into), "notes": notes, "runs": runs}


def _tables(found: Reproduced) -> list[Any]:
    """For each run what was measured, and what of the capsule differs for the row itself."""
    from rich.table import Table

    from orchestrator.safe_text import cell

    tables = []
    for task, verdict in found.verdicts:
        table = Table("what", "recorded", "again", "", title=cell(f"{task.name}: {verdict.verdict}"), title_justify="left")
        for one in verdict.measures:
            word = "equal" if one["equal"] else f"{one['differ']} lines differ" if "differ" in one else "near" if one["near"] else "differs"
            table.add_row(one["what"], cell(_text(one["recorded"])), cell(_text(one["again"])), word)
        tables.append(table)
    if found.verdict.capsule:
        table = Table("part of the capsule", "recorded", "again", "", title="what it was made with", title_justify="left")
        for part in found.verdict.capsule:
            word = "can change bits" if part["decides"] else "cannot change bits"
            table.add_row(part["part"], cell(_text(part["recorded"])), cell(_text(part["again"])), word)
        tables.append(table)
    return tables


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


def one_row(target: str, seed: int | None, profile: str | None, sets: list[str] | None) -> Row:
    """The one row that runs. UserError for none or several."""
    from orchestrator.errors import UserError
    from orchestrator.specs.rows import resolve

    rows = [row for row in resolve(target, sets=sets, profile=profile, seed=seed) if row.kind == "run"]
    if len(rows) != 1 or rows[0].spec is None:
        raise UserError(f"{target}: found {len(rows)} rows that run; expected one: {', '.join(row.id for row in rows[:24])}")
    return rows[0]
