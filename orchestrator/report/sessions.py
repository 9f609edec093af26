"""A session: the claims of many files as one stream, with online control of false discoveries (`scoring.significance.online`).

    RESULTS/sessions/NAME.jsonl    a sealed line a claim, in the order of arrival:
                                   {"number", "time", "row", "against", "metric", "claim", "delta", "p", "level", "accepted"}

The metric and the runs of its two rows identify a claim. Another name, order, expectation, control or call gives no second chance.
More seeds make a claim with its own level.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import sealed, unsealed
from orchestrator.files.json_lines import JsonLines, read_lines
from orchestrator.ledger.results import Record
from orchestrator.ledger.run_lock import RunLock
from orchestrator.report.judgement import Judgement
from orchestrator.scoring.significance.online import level
from orchestrator.scoring.significance.sentence_statistics import LOWER_IS_BETTER
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.positions import Document, shown
from orchestrator.specs.row import Row, short_id
from orchestrator.specs.table import SEGMENT, SEGMENT_WORDS


def join(results: Path, name: str, judged: Sequence[Judgement]) -> list[Record]:
    """Returns the lines of these claims in the session. New claims are appended, each with the level of its position. All have a p.

    A line accepts no claim of the other sign on its runs.
    """
    if not SEGMENT.fullmatch(name):
        raise UserError(f"--session {shown(name)}: expected {SEGMENT_WORDS}")
    path = results / "sessions" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with RunLock(path.with_suffix(".lock")).acquire(timeout=60), closing(JsonLines(path)) as file:
        lines = read(path)
        for one in judged:
            key = key_of(one)
            if key in lines:
                continue
            number, p, claim = len(lines) + 1, p_of(one), one.claim
            bound = level(number, [line["number"] for line in lines.values() if line["accepted"]])
            about = {"row": claim.row, "against": claim.against, "metric": claim.metric, "claim": claim.effect}
            line = {"number": number, "time": datetime.now(UTC).isoformat(timespec="seconds")} | about
            lines[key] = line | {"delta": one.effects[0].delta, "p": p, "level": bound, "accepted": p <= bound}
            file.append(sealed(lines[key], key))
    found = [(one, lines[key_of(one)]) for one in judged]
    return [line | {"accepted": line["accepted"] and p_of(one) < 1} for one, line in found]


def read(path: Path) -> dict[str, Record]:
    """Returns key -> line of a session. UserError: a line was changed or is missing. The levels depend on all lines."""
    found: dict[str, Record] = {}
    for line in read_lines(path):
        if line.get("digest") != digest(unsealed(line)) or line.get("number") != len(found) + 1:
            raise UserError(f"{path}: claim {len(found) + 1} is missing or was altered; expected the file as it was written")
        found[line["key"]] = unsealed(line)
    return found


def key_of(one: Judgement) -> str:
    named = next(effect for effect in one.effects if effect.against == one.claim.against)
    return digest(["session", one.claim.metric, *sorted(sorted(runs) for runs in named.runs)])


def p_of(one: Judgement) -> float:
    """Returns the two-sided p of the claim, not adjusted; 1 if the difference has the other sign, since that does not support the claim."""
    sign = math.copysign(1.0, one.claim.effect or (-1.0 if one.metric in LOWER_IS_BETTER else 1.0))
    return one.raw if one.raw is not None and sign * one.effects[0].delta > 0 else 1.0


def judges(claim: RowClaim, rows: Mapping[str, Row]) -> bool:
    """Returns whether a session judges a claim: one of a file, with an effect, on rows of ours. A claim of no effect has no p."""
    ours = all(name not in rows or rows[name].kind != "external" for name in (claim.row, str(claim.against)))
    return ours and claim.source == "file" and claim.effect != 0


def undeclared(document: Document, claims: Sequence[RowClaim], rows: Mapping[str, Row], starts: Mapping[str, str]) -> list[str]:
    """Returns a line per claim whose row differs from the other row in spec keys that its `changes` do not name.

    Claims that a session omits have none. claims: all of the file. rows: by address. starts: row -> the row with which it is compared.
    """
    problems = []
    for i, claim in enumerate(claims):
        claim = replace(claim, against=claim.against or starts.get(claim.row))
        ours, theirs = (rows[str(name)].spec if name in rows else None for name in (claim.row, claim.against))
        position, allowed = document.at(("claims", i, "changes")), claim.changes or []
        if judges(claim, rows) and ours is not None and theirs is not None:
            own, base = (spec.model_dump(mode="json", exclude={"seed"}) for spec in (ours, theirs))
            others = [key for key in differing(own, base) if not any(f"{key}.".startswith(f"{name}.") for name in allowed)]
            if others:
                found = f"{short_id(claim.row)} differs in {', '.join(others)}{', too' if allowed else ''}"
                problems.append(position.line(f"{found}; expected it to differ from {claim.against} only in what changes names"))
    return problems


def differing(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Returns the dotted keys in which two parts of a spec differ. A component of another kind is one key."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and ours.get("kind") == theirs.get("kind"):
        names = dict.fromkeys([*ours, *theirs])
        return [key for name in names for key in differing(ours.get(name), theirs.get(name), f"{path}.{name}" if path else name)]
    return [] if ours == theirs else [path]
