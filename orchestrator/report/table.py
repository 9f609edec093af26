"""A table as data: reported and measured figures of each row. A stopped or failed row has a status but no figures."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.ledger import component_sources
from orchestrator.report import notes
from orchestrator.report.claims import Comparisons
from orchestrator.report.figures import OURS, Ours, against, figures, ratios
from orchestrator.report.find import Finder, SeedResult, shipped
from orchestrator.report.judgement import Judgement, OfRow
from orchestrator.scoring.rouge import ROUGE
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import Row, baseline, short_id, starts
from orchestrator.specs.table import FAILED, number


@dataclass(frozen=True)
class Line:
    """One row. reported, note, analysis: as in the table's file. ours: None if the row was not run and its speed was not measured.

    judged: judgement against the row with which it is compared.
    """

    id: str
    label: str
    kind: str
    reported: dict[str, Any]
    ours: Ours | None
    note: str = ""
    analysis: str | None = None
    judged: OfRow = field(default_factory=OfRow)

    @property
    def score(self) -> float | None:
        return None if self.ours is None else self.ours.score

    def as_json(self) -> dict[str, Any]:
        """The row with its reported figures as numbers."""
        reported = {name: value if isinstance(value, bool) or value == FAILED else number(value) for name, value in self.reported.items()}
        ours = None if self.ours is None else self.ours.as_json(self.judged)
        return {"id": self.id, "label": self.label, "kind": self.kind, "reported": reported, "ours": ours}


@dataclass(frozen=True)
class Table:
    """A whole table.

    base: the reference row of speeds. base_reported: its reported figures. scores: BLEU and ROUGE columns besides `bleu`. warnings: of
    rows whose code changed, also in the notes. claims: judgements of the claims of the paper and the file. outcomes: results of each row.
    """

    table: str
    columns: list[str]
    rows: list[Line]
    notes: list[str] = field(default_factory=list)
    base: str | None = None
    base_reported: Mapping[str, Any] = field(default_factory=dict)
    scores: frozenset[str] = frozenset()
    warnings: list[str] = field(default_factory=list)
    claims: list[Judgement] = field(default_factory=list)
    outcomes: Mapping[str, Sequence[SeedResult]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Returns the address, which is the first part of its rows' names."""
        return self.table.partition(",")[0]

    def as_json(self) -> dict[str, Any]:
        """{"table", "columns", "rows": [{"id", "label", "kind", "reported", "ours"}], "claims", "notes"}."""
        rows, claims = [line.as_json() for line in self.rows], [claim.as_json() | {"own": claim.own} for claim in self.claims]
        return {"table": self.table, "columns": self.columns, "rows": rows, "claims": claims, "notes": self.notes}


def make(
    name: str,
    rows: Sequence[Row],
    finder: Finder,
    columns: Sequence[str] = (),
    seeds: Iterable[int] = (),
    scale: str = "",
    *,
    base: str | None = None,
    stated: Sequence[RowClaim] = (),
    full_size: bool = False,
    given: str = "",
    named: Collection[str] | None = None,
    recording: bool = True,
) -> Table:
    """Makes the table of resolved rows.

    columns: order of the reported columns; default: order of appearance.
    scale: how our setting differs from the published one, for a note.
    base: row to compare with; default: the row that a row starts from if it is in the table, else the table's `baseline`.
    stated: claims of the table's file, which are judged together with the paper's differences.
    full_size: whether the models have the published sizes, so that their parameters are compared with the reported ones.
    given: options that the rows need on a command line besides their address.
    named: the rows to show; None: all. All rows are judged, and relative figures are relative to all.
    recording: whether to record this look, if `base` is the default.
    """
    seeds, whole = list(seeds), rows
    outcomes = {row.id: finder.outcomes(row, seeds) for row in rows}
    start = starts(rows, base)
    first = base if base is not None else baseline(rows)
    found = {row.id: figures(row, outcomes[row.id]) for row in rows}
    tests, ours = {row.id: row.spec.score.test for row in rows if row.spec is not None}, dict(found)
    for row_id, first_row in start.items():
        if (one := ours[row_id]) is not None:
            ours[row_id] = against(one, found[first_row], tests[row_id] == tests[first_row])
    setting = scale.removeprefix("profile ")
    seen = named if recording and base is None else ()
    compared = Comparisons(rows, outcomes, start, finder.reader, stated, usual=starts(rows), setting=setting, seen=seen)
    keys = {row.id: [*finder.seeds(row, seeds or [1]).values()] for row in rows if row.kind == "run"}
    rates, measured = ({}, None) if first is None else ratios(finder.ledger, keys, first)
    for row_id, speed in rates.items():
        before = ours[row_id] or Ours(status="not run", reason="not run")
        ours[row_id] = replace(before, train_speed=speed.get("train_speed"), decode_speed=speed.get("decode_speed"))
    scored = {row_id for row_id, one in ours.items() if one is not None and one.bleu is not None}
    rows = [row for row in rows if named is None or row.id in named]
    ours, outcomes = {row.id: ours[row.id] for row in rows}, {row.id: outcomes[row.id] for row in rows}
    judged = {row_id: each for row_id, each in compared.of_rows().items() if row_id in ours}
    claims = [claim for claim in compared.of_claims() if claim.claim.row in ours]
    changed = notes.changed_since_training(rows, outcomes, finder, seeds)
    from_product, lines = shipped(finder.ledger, outcomes), []
    runs: dict[frozenset[str | None], str] = {}
    for row in rows:
        own = frozenset(o.keys.score for o in outcomes[row.id])
        if row.control is None:
            runs.setdefault(own, row.id)
        if (one := ours[row.id]) is not None:
            names = sorted({name for (row_id, _), each in changed.items() if row_id == row.id for name in each}) or None
            same = None if row.control is None or not own else runs.get(own)  # a control without added parameters is the baseline
            ours[row.id] = replace(one, same_as=same, changed=names, shipped=row.id in from_product or None)
        of = judged.get(row.id, OfRow())
        lines.append(Line(row.id, row.label, row.kind, dict(row.expect), ours[row.id], row.note, row.analysis, of))
    rouge = ROUGE if any(row.spec is not None and row.spec.score.metric == "rouge" for row in rows) else ()
    scores = [*dict.fromkeys((*rouge, *(score for row in rows for score in (*row.also, *row.means))))]
    order = [*dict.fromkeys([*columns, *(c for line in lines for c in line.reported)])]
    if "bleu" in order and "chrf" not in order:
        order.insert(order.index("bleu") + 1, "chrf")
    if any(line.ours is not None and line.ours.bleu is not None for line in lines):
        place = list(OURS).index("tokens_per_second")
        order += [*list(OURS)[:place], *scores, *list(OURS)[place:]]
    warned = component_sources.warnings(changed, given)
    made = [
        *warned,
        *notes.shipped_note(finder.ledger, from_product, sum(bool(found) for found in outcomes.values())),
        *notes.notes(rows, outcomes, ours, judged, claims, scale, first, measured),
        *notes.metric_doubts(rows, outcomes, finder),
        *notes.length_penalties(rows, outcomes, finder),
    ]
    if full_size:  # the paper's added parameters are relative to its own baseline, not to `base`
        made += notes.parameter_differences(rows, finder, starts(whole, None), whole)
    made += [*(notes.claim_note(claim) for claim in claims if not claim.own), *_untested(rows, lines, start, scored)]
    lacking = {one.claim.row: one.unmet for one in (*(each.own for each in judged.values()), *claims) if one is not None and one.unmet}
    made += [f"{short_id(row)}: not compared with {', '.join(unmet)}" for row, unmet in lacking.items()]
    reported = next((row.expect for row in whole if row.id == first), {})
    return Table(name, list(dict.fromkeys(order)), lines, made, first, reported, frozenset(scores), warned, claims, outcomes)


def _untested(rows: Sequence[Row], lines: Sequence[Line], start: Mapping[str, str], scored: Collection[str]) -> list[str]:
    """Returns a note about rows that were not tested although they and their base rows are `scored`."""
    own = [line.id for row, line in zip(rows, lines, strict=True) if row.control is None and line.judged.effect is None]
    lacking = [row for row in own if row in scored and start.get(row) in scored]
    if not lacking:
        return []
    names = ", ".join(short_id(row_id) for row_id in lacking)
    return [f"not compared: {names} (the same run, scored in another way, or no sentence statistics)"]
