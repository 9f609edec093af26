"""The claims of several tables in one: the paper's effect beside ours, what our seeds can find, and the claims without a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.cells import control, interval, named_verdict, state
from orchestrator.report.claims import reported_claims
from orchestrator.report.figures import short_id
from orchestrator.report.page.section import Section
from orchestrator.report.table import Line

HEADS = ("row", "system", "against", "paper", "ours (95 % interval)", "found with 80 % power", "seeds", "verdict")
CONTROL = "delta to its {} control"


@dataclass(frozen=True)
class ClaimsTable:
    """heads, rows: the table. left: table -> claims of its paper that have no verdict, in words."""

    heads: list[str]
    rows: list[list[str]]
    left: dict[str, str]


def claims_table(sections: Sequence[Section]) -> ClaimsTable:
    """Every row with a verdict, whether its paper reports a difference or not; and what is left of those that it reports."""
    kinds = sorted({kind for section in sections for line in section.table.rows for kind in (line.ours or {}).get("controls", {})})
    rows, left = [], {}
    for section in sections:
        claims = {claim.row: claim.effect for claim in reported_claims(section.rows, section.starts)}
        judged = [line for line in section.table.rows if "verdict" in (line.ours or {}) and "@" not in line.id]
        rows += [_cells(section, line, claims.get(line.id), kinds) for line in judged]
        lacking = [line for line in section.table.rows if line.id in claims and line not in judged]
        if lacking:
            why = Counter("with no finished row to compare with" if _done(line) else state(line).partition(":")[0] for line in lacking)
            left[section.table.table] = ", ".join(f"{count} {word}" for word, count in why.items())
    return ClaimsTable([*HEADS, *(CONTROL.format(kind) for kind in kinds)], rows, left)


def _cells(section: Section, line: Line, claim: float | None, kinds: Sequence[str]) -> list[str]:
    ours: dict[str, Any] = line.ours or {}
    effect = ours.get("effect") or {}
    verdict = ours["verdict"]
    answer = effect.get("other_seeds_and_sentences")
    return [
        line.id,
        line.label,
        short_id(effect.get("against") or section.starts.get(line.id, "")),
        "" if claim is None else f"{claim:+.2f}",
        interval(effect),
        "" if answer is None else f"{answer['mde']:.2f}",
        " and ".join(map(str, dict.fromkeys(effect.get("seeds", [])))),
        named_verdict(verdict["word"], verdict.get("setting", "")),
        *(control(ours.get("controls", {}).get(kind, {})) for kind in kinds),
    ]


def _done(line: Line) -> bool:
    return (line.ours or {}).get("status") == "done"
