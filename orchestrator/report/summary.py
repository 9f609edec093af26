"""The table at the end of a sweep, with one line per row over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from orchestrator.report.cells import figure
from orchestrator.report.effects import interval, verdict
from orchestrator.scoring.rouge import FIGURES, PRINCIPAL
from orchestrator.tables import cell, make_table


def summary(
    records: Sequence[dict[str, Any]],
    labels: Mapping[str, str] | None = None,
    effects: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """Makes the table from the public records of `driver.execute`. Only finished runs have figures.

    effects: differences and verdicts of rows (`report.table.effects`).
    """
    effects = effects or {}
    compared = ("delta", "verdict") if effects else ()
    found_ids = group(records)
    tables = {"/".join(row_id.split("/")[:2]) for row_id in found_ids}
    common = f"{next(iter(tables))}/" if len(tables) == 1 else ""
    rouge = [name for name in FIGURES if any(name in r for r in records)]
    scores = {"bleu": "BLEU"} if not rouge or any("bleu" in r and PRINCIPAL not in r for r in records) else {}
    scores |= {name: name.replace("rouge", "R-") for name in rouge}
    spread = "bleu" if "bleu" in scores else PRINCIPAL
    numeric = ("params", *scores.values(), "± seeds", "tokens/s")
    table = make_table(("row", "system", *numeric, *compared, "status"), title=common.rstrip("/") or None, numeric=numeric)
    for row_id, found in found_ids.items():
        done = [r for r in found if r["status"] == "done" and r.get("bleu") is not None]
        of = {name: [r[name] for r in done if r.get(name) is not None] for name in scores}
        speeds = [r["tokens_per_second"] for r in done if r.get("tokens_per_second")]
        params = next((r["params"] for r in found if r.get("params")), None)
        table.add_row(
            cell(row_id.removeprefix(common)),
            cell((labels or {}).get(row_id, "")),
            figure("params", params),
            *(figure("bleu", statistics.fmean(values) if values else None) for values in of.values()),
            figure("bleu_spread", statistics.stdev(of[spread]) if len(of[spread]) > 1 else None),
            figure("tokens_per_second", statistics.fmean(speeds) if speeds else None),
            *(cell(text) for text in (interval(effects.get(row_id, {}).get("effect", {})), verdict(effects.get(row_id, {}))) if compared),
            cell(states(found)),
        )
    return table


def group(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Records by row, in order of first appearance."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(record["id"], []).append(record)
    return found


def states(found: Sequence[dict[str, Any]]) -> str:
    """The common status of all seeds, or that of each: `seed 1 done; seed 2 stopped by ASHA at step 400`."""
    words = [_state(record) for record in found]
    if len(set(words)) == 1:
        return words[0] if len(words) == 1 else f"{words[0]} ({len(words)} seeds)"
    return "; ".join(f"seed {record['seed']} {word}" for record, word in zip(found, words, strict=True))


def _state(record: dict[str, Any]) -> str:
    if record["status"] == "stopped":
        return f"stopped by ASHA at step {record.get('steps')}"
    return str(record["status"])


def reasons(records: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each run that failed or diverged, and one more if runs failed by their rows' own rule (`failed_below`)."""
    bad = [r for r in records if r["status"] not in ("done", "stopped")]
    lines = [f"{r['id']} seed {r['seed']} {r['status']}: {' '.join(str(r.get('reason') or 'no reason known').split())[:400]}" for r in bad]
    stated = sum(bool(r.get("failed_as_stated")) for r in bad)
    return lines + ([f"{stated} of {len(bad)} failed by their rows' own rule (failed_below): an outcome, no error"] if stated else [])
