"""All claims of a page in one table: the paper's effect beside ours, what our seeds can find, and the claims without a verdict."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.cells import state
from orchestrator.report.effects import interval, judged, named_verdict, parts
from orchestrator.report.figures import short_id
from orchestrator.report.judgement import NOT_COMPARED, NOT_RUN, verdict_of
from orchestrator.report.page.section import Section
from orchestrator.report.table import Table

_DETAILS = ("sd over seeds", "found with 80 % power", "seeds")
HEADS = ("row", "system", "strongest control", "paper", "ours", *_DETAILS, "verdict", "test nll", "chrF", "precision, length")
SECOND = "on a second corpus"
LACKING = (NOT_RUN, NOT_COMPARED)


@dataclass(frozen=True)
class ClaimsTable:
    """heads, rows: the table. left: table -> reason -> names of rows whose claims have no verdict."""

    heads: list[str]
    rows: list[list[str]]
    left: dict[str, dict[str, list[str]]]


def begins_with_claims(sections: Sequence[Section]) -> bool:
    """Whether a page begins with this table: it has several tables, or a second corpus to show beside the claims of one."""
    return len(sections) > 1 or any(section.second for section in sections)


SHORT = ("row", "system", "strongest control", "paper", "ours", "verdict", "test nll", SECOND)
"""Columns of the table of a front page."""


def claims_table(sections: Sequence[Section], *, twice: bool = False) -> ClaimsTable:
    """Every row with a verdict, whether its paper reports a difference or not, and every other claim of a file; then what is left.

    twice: only claims that have results on a second corpus too, with the columns of `SHORT`.
    """
    asked = any(section.second for section in sections)
    rows: list[list[str]] = []
    left: dict[str, dict[str, list[str]]] = {}
    for section in sections:
        for one, beside in on_corpora(section):
            if beside or not twice:
                second = "; ".join(f"{corpus}: {_plain(other)}" for corpus, other in beside.items())
                rows.append([*_cells(section, one), *([second] if asked else [])])
        if lacking := _lacking(section):
            left[section.table.table] = lacking
    heads = [*HEADS, *([SECOND] if asked else [])]
    chosen = [i for i, head in enumerate(heads) if not twice or head in SHORT]
    return ClaimsTable([heads[i] for i in chosen], [[row[i] for i in chosen] for row in rows], left)


def on_corpora(section: Section) -> Iterator[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """(judgement, corpus -> the same claim on a second corpus) of the section's table."""
    second = {corpus: {_pair(one): one for one in judgements(table)} for corpus, table in section.second.items()}
    for one in judgements(section.table):
        yield one, {corpus: claims[_pair(one)] for corpus, claims in second.items() if _pair(one) in claims}


def judgements(table: Table) -> list[dict[str, Any]]:
    """{"row", "against", "claim", "effect", "verdict", "nll"} of each row with a verdict, and of each claim beside the rows."""
    found = []
    for line in table.rows:
        ours = line.ours or {}
        if "verdict" in ours and "@" not in line.id:
            found.append({**ours, "row": line.id, "against": None, "claim": ours["verdict"].get("claim")})
    nll = {(claim["row"], claim["against"]): claim for claim in table.claims if claim["metric"] == "nll"}
    for claim in table.claims:
        if claim["stated"] and not claim["own"] and claim["verdict"] not in LACKING:
            other = nll.get((claim["row"], claim["against"]), claim)
            beside = {} if other is claim else {"nll": other | {"verdict": verdict_of(other)}}
            found.append(claim | {"verdict": verdict_of(claim)} | beside)
    return found


def _pair(found: Mapping[str, Any]) -> tuple[Any, ...]:
    return found["row"], found["against"], found.get("metric")


def _cells(section: Section, found: Mapping[str, Any]) -> list[str]:
    effect, verdict = found.get("effect") or {}, found["verdict"]
    answer = effect.get("other_seeds_and_sentences") or {}
    label = next(line.label for line in section.table.rows if line.id == found["row"])
    system = re.sub(r" \([^()]*\)$", "", label)  # a remark at its end stands in the table of the row
    return [
        found["row"] + (", tuned" if section.searches else ""),
        system,
        short_id(effect.get("against") or found["against"] or section.starts.get(found["row"], "")),
        "" if found["claim"] is None else f"{found['claim']:+.2f}",
        interval(effect),
        f"{effect['sd']:.2f}" if "sd" in effect else "",
        f"{answer['mde']:.2f}" if answer else "",
        " and ".join(map(str, dict.fromkeys(effect.get("seeds", [])))),
        named_verdict(verdict["word"], verdict.get("setting", "")),
        _plain(found.get("nll") or {}),
        interval(found.get("chrf_delta") or found.get("chrf") or {}),
        parts(effect),
    ]


def _plain(found: Mapping[str, Any]) -> str:
    """A difference with the word of its verdict, without the setting."""
    return judged({"effect": found.get("effect"), "verdict": {"word": found["verdict"]["word"]}}) if found else ""


def _lacking(section: Section) -> dict[str, list[str]]:
    """Reason -> rows whose claims have no verdict; with the row they are compared with where it is not the usual one."""
    lines = {line.id: line for line in section.table.rows}
    found: dict[str, list[str]] = {}
    for claim in section.table.claims:
        if claim["stated"] and claim["verdict"] in LACKING:
            line = lines[claim["row"]]
            done = (line.ours or {}).get("status") == "done"
            reason = "no finished row to compare with" if done else state(line).partition(":")[0]
            named = short_id(line.id) + ("" if claim["own"] else f" against {short_id(claim['against'])}")
            found.setdefault(reason, []).append(named)
    return found
