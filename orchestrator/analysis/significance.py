"""Is a row better than its baseline, or would other sentences have said otherwise? Sign test and paired bootstrap, seed by seed.

Both are always made; which of them gives the mark is `--option test`, else what the analysis row or the row's file says (`significance`),
else both.

The baseline: `--option baseline=ROW`, else the row that a row starts from, else the table's baseline (pinned, or the first) among the
subjects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.base import Analysis, Context, Subject, choice
from orchestrator.analysis.options import whole
from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder
from orchestrator.report.table import baseline
from orchestrator.scoring.significance.compare import Comparer
from orchestrator.scoring.significance.paired_tests import Comparison
from orchestrator.scoring.significance.rules import RULES, Rule, rule_of, tests_in_words
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIONS = {"baseline": "auto", "samples": "1000", "draw": "12345", "test": "auto", "levels": "0.05,0.01"}
"""baseline: a row's address, or auto; samples: of the bootstrap; draw: the seed of its draw.

test: auto, both, sign or bootstrap; levels: p-values below which a row is marked, the loosest first.
"""

COLUMNS = [
    *("row", "label", "seed", "baseline", "bleu", "baseline_bleu", "delta", "low", "high", "wins", "p_bootstrap"),
    *("better", "worse", "ties", "p_sign", "test", "mark"),
]


@dataclass(frozen=True)
class Pair:
    """A row and what it is compared with; both without a seed of their own."""

    subject: Subject
    baseline: Row


def analyse(context: Context) -> Analysis:
    """A record for each row and each seed that both have. UserError where no row has a baseline with a finished run."""
    samples, draw = whole(context, "samples", 1), whole(context, "draw")
    rules = {subject.row.id: _rule(subject, context) for subject in context.subjects}
    lacking: list[str] = []
    pairs = [Pair(s, base) for s in context.subjects if (base := _baseline(s, context, lacking)) is not None]
    owners = {s.spec.data.model_dump_json(): s for s in context.subjects}
    comparer = Comparer(context.ledger, lambda data: context.prepared(owners[data.model_dump_json()]), samples, draw)
    finder = Finder(context.ledger, Data(context.data_dir, context.cache_dir))
    records: list[dict[str, Any]] = []
    kept: list[Path] = []
    for pair in pairs:
        found = _seeds(pair, finder)
        if not found:
            lacking.append(
                f"{pair.subject.row.id}: {pair.baseline.id} is the same run, or has none of a seed of this row, scored on the same test set"
            )
        for seed, (ours, theirs) in found.items():
            test = comparer.compare(pair.subject.spec, ours, theirs)
            assert test is not None  # context.prepared makes the corpus or says why it cannot
            kept.append(comparer.keep(ours, theirs, test))
            records.append(_record(pair, seed, test, rules[pair.subject.row.id]))
    if not records:
        raise UserError(*(lacking or [f"{context.subjects[0].row.id}: found no row to compare with it; name both rows"]))
    used = [rules[row] for row in dict.fromkeys(record["row"] for record in records)]
    notes, summary = _notes(records, samples, used) + lacking, [_line(record) for record in records]
    return Analysis("significance", COLUMNS, records, lambda figure: _draw(figure, records), notes, summary, kept=kept)


def _rule(subject: Subject, context: Context) -> Rule:
    """UserError for a test that is not known and for levels that are no falling p-values."""
    test, text = choice("test", context.options["test"], ("auto", *RULES)), context.options["levels"]
    asked = None if subject.asked is None else subject.asked.significance
    rule = rule_of((asked or subject.row.significance) if test == "auto" else test)
    try:
        return rule.at([float(part) for part in text.split(",")])
    except ValueError:
        wanted = f"at most {len(rule.levels)} falling p-values"
        raise UserError(f"--option levels={shown(text)}: expected {wanted}, as in levels=0.05,0.01") from None


def _baseline(subject: Subject, context: Context, lacking: list[str]) -> Row | None:
    """None for the baseline itself; None, and a line more in `lacking`, where the table's baseline is not among the subjects."""
    row, chosen = subject.row, context.options["baseline"]
    known = {s.row.id: s.row for s in context.subjects}
    if row.parent is not None:
        known.setdefault(row.parent.id, row.parent)
    if chosen != "auto":
        if chosen not in {*known, *(s.row.parent.id for s in context.subjects if s.row.parent is not None)}:
            raise UserError(f"--option baseline={shown(chosen)}: {nearest(chosen, known)}; it must be among the targets")
        return None if row.id == chosen else known.get(chosen)
    if row.parent is not None:
        return row.parent
    first = _of_table(row)
    if first != row.id and first not in known:
        lacking.append(f"{row.id}: its baseline {first} is not among the finished rows asked for; name it too, or another: baseline=ROW")
    return None if first == row.id else known.get(first)


@cache
def _rows(file: str) -> tuple[Row, ...]:
    """Those of a file that run; none where the file is gone."""
    return tuple(row for row in resolve(file) if row.spec is not None) if Path(file).is_file() else ()


def _of_table(row: Row) -> str:
    """The baseline of the row's table, asked for or not: the one of the rows on the same corpus."""
    rows = _rows(row.source_file)
    corpora = {other.id: other.spec.data.corpus for other in rows if other.spec is not None}
    return baseline([other for other in rows if corpora[other.id] == corpora.get(row.id)]) or row.id


def _seeds(pair: Pair, finder: Finder) -> dict[int, tuple[Keys, Keys]]:
    """Seed -> keys of both, for each seed that both were scored with; the baseline's scoring is taken as the row's."""
    row, base = pair.subject.row, pair.baseline
    assert row.spec is not None and base.spec is not None
    base = replace(base, spec=base.spec.model_copy(update={"score": row.spec.score}))
    both = [{o.seed: o.keys for o in finder.outcomes(one, [row.spec.seed]) if o.status == "done"} for one in (row, base)]
    return {seed: (both[0][seed], both[1][seed]) for seed in both[0] if seed in both[1] and both[0][seed].score != both[1][seed].score}


def _record(pair: Pair, seed: int, test: Comparison, rule: Rule) -> dict[str, Any]:
    figures = {
        "bleu": test.bleu,
        "baseline_bleu": test.baseline_bleu,
        "delta": test.delta,
        "low": test.bootstrap.low,
        "high": test.bootstrap.high,
        "wins": test.bootstrap.wins,
        "p_bootstrap": test.bootstrap.p,
        "p_sign": test.sign.p,
    }
    counts = {"better": test.sign.better, "worse": test.sign.worse, "ties": test.sign.ties}
    about = {"row": pair.subject.row.id, "label": pair.subject.label, "seed": seed, "baseline": pair.baseline.id}
    return (
        about | {name: float(f"{value:.8g}") for name, value in figures.items()} | counts | {"test": rule.test, "mark": rule.mark([test])}
    )


def _line(r: dict[str, Any]) -> str:
    """`row9 seed 1  +0.42 [+0.10, +0.75] †  sign 0.003 (70:41)  bootstrap 0.009  over row1`."""
    interval = f"[{r['low']:+.2f}, {r['high']:+.2f}]"
    tests = f"sign p {r['p_sign']:.4f} ({r['better']}:{r['worse']})  bootstrap p {r['p_bootstrap']:.4f}"
    return (
        f"{short_id(r['row'])} seed {r['seed']}  {r['delta']:+.2f} {interval} {r['mark'] or ' '}  {tests}  over {short_id(r['baseline'])}"
    )


def _notes(records: list[dict[str, Any]], samples: int, rules: list[Rule]) -> list[str]:
    notes = [
        *dict.fromkeys(f"{rule.words()}: {tests_in_words(rule.test, samples)}" for rule in rules),
        "sign test: does the baseline's BLEU rise or fall when one of its sentences is exchanged for the row's; "
        "low, high: 95 % interval of the bootstrap",
        "both tests ask whether other sentences would say otherwise, for the weights at hand; whether other seeds would is another "
        "question, which only the spread over seeds speaks to",
    ]
    if len({record["seed"] for record in records}) == 1:
        notes.append(f"one seed ({records[0]['seed']}): nothing here says how much another one would change")
    return notes


def _draw(figure: Figure, records: list[dict[str, Any]]) -> None:
    """Difference to the baseline with its 95 % interval, a line for each row and seed."""
    figure.set_size_inches(7.0, max(2.0, 0.9 + 0.32 * len(records)))
    axes = figure.subplots()
    several = len({record["seed"] for record in records}) > 1
    names = [f"{r['label']}{', seed ' + str(r['seed']) if several else ''} {r['mark']}".rstrip() for r in records]
    for place, record in enumerate(records):
        axes.plot([record["low"], record["high"]], [place, place], color="tab:blue", linewidth=2)
        axes.plot([record["delta"]], [place], "o", color="tab:blue")
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(records)), names)
    axes.invert_yaxis()
    axes.set_xlabel("BLEU over the baseline, 95 % interval")
