"""`gc`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.cli.console import console
from orchestrator.cli.output import print_json
from orchestrator.files.folders import need_folder
from orchestrator.ledger import object_store
from orchestrator.lifecycle import garbage, references
from orchestrator.lifecycle.collect import collect
from orchestrator.safe_text import log
from orchestrator.tables import cell, make_table


def gc(results: Path, *, delete: bool, weights: bool, as_json: bool) -> None:
    need_folder(results, "--results")
    referenced = references.of_tables()
    plan = garbage.find(results, weights=weights, references=referenced)
    removed, kept = plan.items, plan.kept
    if delete:
        removed, late = collect(results, plan, weights=weights, references=referenced)
        kept = [*plan.kept, *late]
    if as_json:
        record = {"results": object_store.display_path(results), "deleted": delete, "bytes": sum(item.size for item in removed)}
        print_json(record | {"items": [item.as_json() for item in removed], "kept": [item.as_json() for item in kept], "notes": plan.notes})
    else:
        _print("removed" if delete else "would be removed", "kind", [(i.path, i.kind, i.size, i.row, i.why) for i in removed])
        _print("kept", "rule", [(i.path, i.rule, i.size, i.row, i.why) for i in kept])
    for line in plan.notes:
        log(f"warning: {line}")
    total = _bytes(sum(item.size for item in removed))
    if delete:
        log(f"removed {len(removed)} things, {total}")
    else:
        log(f"{len(removed)} things, {total}, would go; nothing was changed" + ("; --delete removes them" if removed else ""))


def _print(title: str, kind: str, items: Sequence[tuple[Path, str, int, str, str]]) -> None:
    """Nothing where there are no items. Of each path the last two parts: the folder of the run or kind, and the name."""
    if not items:
        return
    table = make_table(("what", kind, "size", "row", "why"), title=title, numeric=("size",))
    for path, word, size, row, why in items:
        table.add_row(cell("/".join(path.parts[-2:])), word, _bytes(size), cell(row), cell(why))
    console().print(table)


def _bytes(size: float) -> str:
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
