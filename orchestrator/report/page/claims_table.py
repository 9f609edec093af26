"""All claims of a page in one table: the paper's effect beside ours, what our seeds can find, and the claims without a verdict."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestrator.report.cells import state
from orchestrator.report.figures import short_id
from orchestrator.report.judgement import NOT_COMPARED, NOT_RUN, Judgement
from orchestrator.report.page.section import Section
from orchestrator.report.table import Table

_DETAILS = ("sd over seeds", "found with 80 % power", "seeds")
HEADS = ("row", "system", "strongest control", "paper", "ours", *_DETAILS, "verdict", "test nll", "chrF", "precision, length")
SECOND = "on a second corpus"
LACKING = (NOT_RUN, NOT_COMPARED)


class Answer(NamedTuple):
    """A judgement that the page shows, and the same claim on the nll of the references."""

    judgement: Judgement
    nll: Judgement | None

    @property
    def question(self) -> tuple[Any, ...]:
        claim = self.judgement.claim
        return (claim.row,) if self.judgement.own else (claim.row, claim.against, claim.metric)


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
                second = "; ".join(f"{corpus}: {other.judgement.plain}" for corpus, other in beside.items())
                rows.append([*_cells(section, one), *([second] if asked else [])])
        if lacking := _lacking(section):
            left[section.table.table] = lacking
    heads = [*HEADS, *([SECOND] if asked else [])]
    chosen = [i for i, head in enumerate(heads) if not twice or head in SHORT]
    return ClaimsTable([heads[i] for i in chosen], [[row[i] for i in chosen] for row in rows], left)


def on_corpora(section: Section) -> Iterator[tuple[Answer, dict[str, Answer]]]:
    """(answer, corpus -> the answer to the same claim on a second corpus) of the section's table."""
    second = {corpus: {one.question: one for one in answers(table)} for corpus, table in section.second.items()}
    for one in answers(section.table):
        yield one, {corpus: others[one.question] for corpus, others in second.items() if one.question in others}


def answers(table: Table) -> list[Answer]:
    """Of each row with a verdict, and of each claim beside the rows."""
    found = [Answer(own, line.judged.nll) for line in table.rows if (own := line.judged.own) is not None and "@" not in line.id]
    nll = {(one.claim.row, one.claim.against): one for one in table.claims if one.metric == "nll"}
    for one in table.claims:
        if one.stated and not one.own and one.verdict.word not in LACKING:
            other = nll.get((one.claim.row, one.claim.against))
            found.append(Answer(one, None if other is one else other))
    return found


def _cells(section: Section, found: Answer) -> list[str]:
    one, effect = found.judgement, found.judgement.effect
    difference = None if effect is None else effect.difference
    label = next(line.label for line in section.table.rows if line.id == one.claim.row)
    return [
        one.claim.row + "".join(section.table.table.partition(", ")[1:]),  # `, tuned`, `, mini`
        re.sub(r" \([^()]*\)$", "", label),  # a remark at its end stands in the table of the row
        short_id(str(one.claim.against) if effect is None else effect.against),
        "" if one.claim.effect is None else f"{one.claim.effect:+.2f}",
        "" if effect is None else effect.interval,
        "" if difference is None else f"{difference.spread.sd:.2f}",
        "" if difference is None else f"{difference.other_sentences.mde:.2f}",
        "" if effect is None else " and ".join(map(str, dict.fromkeys(effect.seeds))),
        one.word,
        "" if found.nll is None else found.nll.plain,
        "" if one.chrf is None else one.chrf.interval,
        "" if effect is None else effect.shares,
    ]


def _lacking(section: Section) -> dict[str, list[str]]:
    """Reason -> rows whose claims have no verdict; with the row they are compared with where it is not the usual one."""
    lines = {line.id: line for line in section.table.rows}
    found: dict[str, list[str]] = {}
    for one in section.table.claims:
        if one.stated and one.verdict.word in LACKING:
            line = lines[one.claim.row]
            done = (line.ours or {}).get("status") == "done"
            reason = "no finished row to compare with" if done else state(line).partition(":")[0]
            named = short_id(line.id) + ("" if one.own else f" against {short_id(str(one.claim.against))}")
            found.setdefault(reason, []).append(named)
    return found
