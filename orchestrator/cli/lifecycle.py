"""`stop` and `gc`: end what runs, free what nothing needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import RESULTS, AsJson, Results
from orchestrator.ledger import mirrored

if TYPE_CHECKING:
    from orchestrator.lifecycle.garbage import Item, Kept


def register(app: typer.Typer) -> None:
    app.command("stop")(stop)
    app.command("gc")(gc)


def stop(
    name: Annotated[
        str | None,
        typer.Argument(help="A sweep as `status` prints it, a row, row:seed or a train key. Default: the only sweep that runs."),
    ] = None,
    results: Results = RESULTS,
    every: Annotated[bool, typer.Option("--all", help="Every sweep that runs in the folder.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Send the signal again: end at once, back to the last checkpoint.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, max=86400, help="Seconds to wait for the end; 0: only ask.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Ask the process that drives a sweep or a run to save and end (SIGTERM, once), and wait for it. A row ends with its whole sweep.

    Only a process of this machine that holds the lock is signalled. What does not run is no error. Exit code 1: asked, not over yet.

    Example:  nmt-ablate stop quickstart-fusion
    """
    from orchestrator.cli.options import emit, need_folder, note
    from orchestrator.lifecycle.stopping import stop as ask

    need_folder(results, "--results")
    found = ask(results, name, every=every, now=now, timeout=timeout)
    if as_json:
        emit({"results": str(results), "stopped": [one.as_json() for one in found]})
    for one in found:
        for line in one.lines():
            note(line)
    if not found:
        note(f"nothing runs in {results}")
    if timeout > 0 and any(one.action == "stopping" for one in found):
        raise typer.Exit(1)


def gc(
    results: Results = RESULTS,
    delete: Annotated[bool, typer.Option("--delete", "--yes", help="Remove it. Default: only show what would go.")] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="Also weights and snapshots of finished, scored rows that no other row or analysis needs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Free space: checkpoints of finished runs, tensors of runs that no sweep names any more, leftovers, locks of dead processes.

    Never the ledger's JSON, texts and specs, never what a live process or a driven sweep has, never what an unfinished run goes on from
    or another row, translation or analysis needs: the second table says which rule keeps what.

    Example:  nmt-ablate gc --results results
    """
    from orchestrator.cli.options import console, emit, need_folder, note
    from orchestrator.lifecycle import garbage, needs

    need_folder(results, "--results")
    needed = needs.of_tables()
    plan = garbage.find(results, weights=weights, needs=needed)
    gone, stayed = plan.items, plan.kept
    if delete:
        from orchestrator.lifecycle.collect import collect

        gone, late = collect(results, plan, weights=weights, needs=needed)
        stayed = [*plan.kept, *late]
    if as_json:
        about = {"results": mirrored.shown(results), "deleted": delete, "bytes": sum(item.size for item in gone)}
        emit(about | {"items": [item.as_json() for item in gone], "kept": [one.as_json() for one in stayed], "notes": plan.notes})
    else:
        for table in (_items(gone, delete), _kept(stayed)):
            if table.row_count:
                console().print(table)
    for line in plan.notes:
        note(f"warning: {line}")
    for orphan in mirrored.orphans(results, delete=delete):
        note(f"{'removed' if delete else 'would go'}: {orphan.name}, {_bytes(orphan.size)}: {orphan.why}")
    total = _bytes(sum(item.size for item in gone))
    if delete:
        note(f"removed {len(gone)} things, {total}")
    else:
        note(f"{len(gone)} things, {total}, would go; nothing was changed" + ("; --delete removes them" if gone else ""))


def _items(items: list[Item], deleted: bool) -> Any:
    from orchestrator.safe_text import cell

    table = _table("removed" if deleted else "would be removed", "what", "kind", "size", "row", "why")
    for item in items:
        table.add_row(cell(_short(item.path)), item.kind, _bytes(item.size), cell(item.row), cell(item.why))
    return table


def _kept(kept: list[Kept]) -> Any:
    from orchestrator.safe_text import cell

    table = _table("kept", "what", "rule", "size", "row", "why")
    for one in kept:
        table.add_row(cell(_short(one.path)), one.rule, _bytes(one.size), cell(one.row), cell(one.why))
    return table


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right" if name == "size" else "left", overflow="fold")
    return table


def _short(path: Any) -> str:
    """The last two parts: folder of the run or kind, and name."""
    return "/".join(path.parts[-2:])


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
