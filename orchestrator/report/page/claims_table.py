"""All claims of a page: a table with the paper's effect, our effect and the detectable effect; claims without a verdict; a forest plot."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestrator.report.cells import state
from orchestrator.report.effects import Effect
from orchestrator.report.judgement import NOT_COMPARED, NOT_RUN, Judgement
from orchestrator.report.page.charts import Spec, layer, left_out, limit, quantity, zero
from orchestrator.report.page.section import Section
from orchestrator.report.table import Table
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.row import short_id

_DELTAS = ("delta (paper)", "delta (ours)")
_DETAILS = ("sd over seeds", "detectable (80 % power)", "seeds")
HEADS = ("row", "system", "strongest control", *_DELTAS, *_DETAILS, "verdict", "test nll", "chrF", "precision, length")
SECOND = "on a second corpus"
LACKING = (NOT_RUN, NOT_COMPARED)


class Answer(NamedTuple):
    """A judgement on the page, with the judgement of the same claim on the nll of the references."""

    judgement: Judgement
    nll: Judgement | None

    @property
    def question(self) -> tuple[Any, ...]:
        claim = self.judgement.claim
        return (claim.row,) if self.judgement.own else (claim.row, claim.against, claim.metric)


@dataclass(frozen=True)
class ClaimsTable:
    """The table (heads, rows). left: table -> reason -> names of rows whose claims have no verdict."""

    heads: list[str]
    rows: list[list[str]]
    left: dict[str, dict[str, list[str]]]


def begins_with_claims(sections: Sequence[Section]) -> bool:
    """Returns whether a page begins with this table: the page has several tables, or claims with a second corpus."""
    return len(sections) > 1 or any(section.second for section in sections)


SHORT = ("row", "system", "strongest control", *_DELTAS, "verdict", "test nll", SECOND)
"""Columns of the table of a front page."""


def claims_table(sections: Sequence[Section], *, twice: bool = False) -> ClaimsTable:
    """Returns every row with a verdict, with or without a reported difference, every other claim of a file, and the remaining claims.

    twice: only claims that also have results on a second corpus, with the columns of `SHORT`.
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
    """Yields (answer, corpus -> answer to the same claim on a second corpus) of the section's table."""
    second = {corpus: {one.question: one for one in answers(table)} for corpus, table in section.second.items()}
    for one in answers(section.table):
        yield one, {corpus: others[one.question] for corpus, others in second.items() if one.question in others}


def answers(table: Table) -> list[Answer]:
    """Returns the answers for each row with a verdict, and for each claim that is not about such a row."""
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
        re.sub(r" \([^()]*\)$", "", label),  # the row's own table shows a remark at the end of the label
        short_id(str(one.claim.against) if effect is None else effect.against),
        one.claimed_effect,
        "" if effect is None else effect.interval,
        "" if difference is None else f"{difference.spread.sd:.2f}",
        "" if effect is None or effect.answer is None else f"{effect.answer.mde:.2f}",
        "" if effect is None else " and ".join(map(str, dict.fromkeys(effect.seeds))),
        one.verdict.word,
        "" if found.nll is None else found.nll.plain,
        "" if one.chrf is None else one.chrf.interval,
        "" if effect is None else effect.shares,
    ]


def _lacking(section: Section) -> dict[str, list[str]]:
    """Returns reason -> rows whose claims have no verdict, with the comparison row if it is not the usual one."""
    lines = {line.id: line for line in section.table.rows}
    found: dict[str, list[str]] = {}
    for one in section.table.claims:
        if one.stated and one.verdict.word in LACKING:
            line = lines[one.claim.row]
            done = line.ours is not None and line.ours.status == "done"
            reason = "no finished row to compare with" if done else state(line).partition(":")[0]
            named = short_id(line.id) + ("" if one.own else f" against {short_id(str(one.claim.against))}")
            found.setdefault(reason, []).append(named)
    return found


ROW = 18
"""Height of a row with one corpus in pixels. Each further corpus adds half of it."""
LETTERS, LETTER = 60, 5.6
"""Longest label of a row in letters, and pixels per letter in the widest likely font."""
SCORES = ("bleu", PRINCIPAL)
"""Metrics of the first panel. Claims about other metrics, except the nll, are not drawn."""
WIDTHS = {"score": 300, "nll": 170}
_COLOURS = ("var(--c1)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)")


def forest(sections: Sequence[Section], *, twice: bool = False) -> Spec | None:
    """Returns the plot of all claims of these tables; None for less than two. twice: only claims that also have a second corpus."""
    points = [point for section in sections for point in _points(section, twice, several=len(sections) > 1)]
    if len(points) < 2:
        return None
    _name_apart(points)
    most = limit([each["score"] for each in points])
    far = [_in_words(each) for each in points if abs(each["score"]) > most]
    points = [each for each in points if abs(each["score"]) <= most]
    metrics = " and ".join(dict.fromkeys(TITLES[each["metric"]] for each in points))
    titles = {"score": f"delta of {metrics}, better to the right", "nll": "delta of test nll, better to the left"}
    corpora = list(dict.fromkeys(each["corpus"] for each in points))
    order = list(dict.fromkeys(each["row"] for each in points))
    if len(sections) == 1:
        order.sort(key=lambda row: -next(each["score"] for each in points if each["row"] == row))
    axis = {"labelLimit": 0, "minExtent": math.ceil(LETTER * max(map(len, order)))}
    panels = []
    for panel, title in titles.items():
        if any(panel in each for each in points):
            scale = {"domain": order}  # of both panels, also if the nll of a row is unknown
            y = {"field": "row", "type": "nominal", "scale": scale, "title": None, "axis": axis if panel == "score" else None}
            panels.append(_panel(panel, title, y, corpora, len(order), paper=any("paper" in each for each in points)))
    return {"data": {"values": points}, "hconcat": panels, **left_out(far)}


def _name_apart(points: list[dict[str, Any]]) -> None:
    """Gives one label to each claim: claims of equal labels have the whole address of their row, and corpora their languages if needed."""
    if len({(each["claim"], each["row"], _plain(each["corpus"])) for each in points}) == len(points):
        for each in points:
            each["corpus"] = _plain(each["corpus"])
    claims = Counter(row for row, _ in {(each["row"], each["claim"]) for each in points})
    for each in points:
        if claims[each["row"]] > 1:
            each["row"] = f"{each['row'].rpartition(' (')[0]} ({each['claim']})"


def _in_words(point: Mapping[str, Any]) -> str:
    nll = f", test nll {point['nll']:+.3f}" if "nll" in point else ""
    return f"{point['row']}: {TITLES[point['metric']]} {point['score']:+.2f}{nll}"


def _points(section: Section, twice: bool, several: bool) -> list[dict[str, Any]]:
    """{"row", "claim", "corpus", "metric", "score", "score_low", "score_high", "nll", .., "paper"} of each claim and corpus."""
    labels = {line.id: line.label.partition(" (")[0] for line in section.table.rows}
    found = []
    for one, second in on_corpora(section):
        claim, effect = one.judgement.claim, one.judgement.effect
        if effect is None or effect.metric not in SCORES or (twice and not second):
            continue
        head = labels[claim.row] if several else f"{short_id(claim.row)}: {labels[claim.row]}"
        tail = f" over {short_id(effect.against)}" + "".join(section.table.table.partition(", ")[1:])
        tail += f" ({claim.row.split('/')[0]})" if several else ""
        room = LETTERS - len(tail)  # the comparison row is never cut off, because a row may have several claims
        label = (head if len(head) <= room else head[: room - 1].rstrip(" ,") + "…") + tail
        data = next((str(line.ours.data) for line in section.table.rows if line.id == claim.row and line.ours), "")
        for corpus, each in {data: one, **second}.items():
            if (found_there := each.judgement.effect) is not None:
                point: dict[str, Any] = {"row": label, "claim": claim.row, "corpus": corpus, "metric": found_there.metric}
                point |= {"paper": claim.effect} if each is one and claim.effect is not None else {}
                found.append(point | _ends("score", found_there) | _ends("nll", each.nll.effect if each.nll is not None else None))
    return found


def _plain(corpus: str) -> str:
    """Returns the corpus without its languages, for tables with several directions."""
    return re.sub("-[a-z]{2}-[a-z]{2}$", "", corpus)


def _ends(panel: str, effect: Effect | None) -> dict[str, float]:
    if effect is None:
        return {}
    found = effect.answer
    return {panel: effect.delta, **({} if found is None else {f"{panel}_low": found.low, f"{panel}_high": found.high})}


def _panel(panel: str, title: str, y: Spec, corpora: Sequence[str], rows: int, *, paper: bool) -> Spec:
    """Returns a panel: a line at zero, intervals and points per corpus, and the claimed difference as a diamond."""
    x = quantity(panel, title, axis={"tickCount": 6 if panel == "score" else 4})
    legend = {"orient": "top", "title": None, "labelLimit": 0, "columnPadding": 30}
    domain = [*corpora, *(["claimed"] if paper else [])]
    colour = {"scale": {"domain": domain, "range": [*_COLOURS[: len(corpora)], "var(--c2)"][: len(domain)]}, "legend": legend}
    shape = {"scale": {"domain": domain, "range": [*["circle"] * len(corpora), "diamond"][: len(domain)]}, "legend": legend}
    corpus = {"field": "corpus", "type": "nominal"}
    by = {"y": y, **({"yOffset": {**corpus, "sort": list(corpora)}} if len(corpora) > 1 else {}), "color": {**corpus, **colour}}
    ends = {**by, "x": {**x, "field": f"{panel}_low"}, "x2": {"field": f"{panel}_high"}}
    dots = {**by, "x": x, "shape": {**corpus, **shape}}
    layers = [
        zero("x"),
        layer({"type": "rule", "strokeWidth": 2}, ends, f"isValid(datum.{panel}_low)"),
        layer({"type": "point", "filled": True, "size": 40, "opacity": 1}, dots, f"isValid(datum.{panel})"),
    ]
    if paper and panel == "score":
        the = {"datum": "claimed"}
        diamonds = {"y": y, **({"yOffset": {"datum": corpora[0]}} if len(corpora) > 1 else {}), "x": {**x, "field": "paper"}}
        diamonds |= {"color": {**the, **colour}, "shape": {**the, **shape}}
        layers.append(layer({"type": "point", "size": 50, "opacity": 1}, diamonds, "isValid(datum.paper)"))
    return {"width": WIDTHS[panel], "height": round((0.5 + 0.5 * len(corpora)) * ROW) * rows, "layer": layers}
