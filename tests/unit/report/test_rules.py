"""Marks, means, spreads and columns against numbers worked out by hand: who is compared with whom, and how a figure is written."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.files.canonical import digest
from orchestrator.files.documents import write_document
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.report.cells import figure, state
from orchestrator.report.figures import Ours, figures, ratio_of, ratios
from orchestrator.report.find import Finder, SeedResult
from orchestrator.report.judgement import OfRow
from orchestrator.report.notes import notes, parameter_differences, unit
from orchestrator.report.table import Line, Table, make
from orchestrator.scoring.significance.sentence_statistics import StatisticsReader
from orchestrator.specs.row import Row, baseline
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data
from tests.unit.report.support import shown


@pytest.fixture
def rows(spec):
    return lambda text: resolve(spec(text))


def done(seed: int, bleu: float, name: str = "", **more) -> SeedResult:
    """A finished seed; `name` tells its keys from those of other rows."""
    given = {"params": 1000, "signature": "s", "keys": Keys(f"t{name}{seed}", f"d{name}{seed}", f"s{name}{seed}")} | more
    return SeedResult(seed, "done", "", given.pop("steps", 4), bleu=bleu, **given)


def test_means_spread_and_what_is_left_out(rows) -> None:
    """20, 22 and 27: mean 23; sample variance (9 + 1 + 16) / 2 = 13."""
    (row,) = rows("  a: {also: {valid: {test: valid}}, means: {average: [bleu, valid]}}\n")
    found = [
        done(1, 20.0, also={"valid": 10.0}, tokens_per_second=100.0, steps=4),
        done(2, 22.0, also={"valid": 20.0}, tokens_per_second=None, steps=5),
        done(3, 27.0, also={"valid": 60.0}, tokens_per_second=200.0, steps=6),
        SeedResult(4, "stopped", "stopped by ASHA at step 2", 2),
    ]
    ours = figures(row, found)
    assert ours is not None
    assert (ours.bleu, ours.bleu_spread) == (23.0, pytest.approx(math.sqrt(13)))
    assert (ours.scores, ours.tokens_per_second) == ({"valid": 30.0, "average": 26.5}, 150.0)
    assert (ours.seeds, ours.steps, ours.unfinished) == ([1, 2, 3], [4, 5, 6], {"4": "stopped by ASHA at step 2"})
    alike = Line("t/a", "", "run", {}, replace(ours, unfinished=ours.unfinished | {"6": "not scored", "7": "not scored"}))
    assert state(alike) == "done; seed 4 stopped by ASHA at step 2; seeds 6, 7 not scored"
    two = figures(row, found[:2])
    assert two is not None and two.bleu_spread == pytest.approx(math.sqrt(2))
    one = figures(row, found[:1])
    assert one is not None and one.bleu_spread is None
    lacking = figures(row, [found[0], done(2, 22.0)])
    assert lacking is not None and lacking.scores == {}
    assert figures(row, []) is None and (stopped := figures(row, found[3:])) is not None
    assert stopped == Ours(status="stopped", reason="stopped by ASHA at step 2", seeds=[4])
    assert stopped.as_json(OfRow()) == {"status": "stopped", "reason": "stopped by ASHA at step 2", "seeds": [4]}


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("params", 87_991_808, "87.99M"), ("params", 100_000, "0.10M"), ("params", 99_999, "99,999"),
        ("params_added", 14_685_184, "+14.69M"), ("params_added", 640, "+640"), ("params_added", 0, "+0"), ("bleu", 27.644, "27.64"),
        ("delta", 0.3, "+0.30"), ("bleu_spread", 0.127, "0.13"), ("tokens_per_second", 1234.4, "1,234"),
        ("tokens_per_second", 99.94, "99.9"), ("significant", True, "yes"), ("bleu", None, ""),
    ],
)  # fmt: skip
def test_how_a_figure_is_written(column: str, value, text: str) -> None:
    assert figure(column, value) == text


TABLE = """\
  base: {pinned: true, expect: {bleu: 27.64, params: 88.0M, rank: 3}}
  new: {model: {d_ff: 48}, expect: {bleu: 28.1, rank: 1}}
  off: {model: {d_ff: 56}, expect: {bleu: 28.0}}
"""


def table_of(monkeypatch: pytest.MonkeyPatch, found: list[Row], outcomes: dict[str, list[SeedResult]], **options) -> Table:
    monkeypatch.setattr(Finder, "outcomes", lambda self, row, seeds=(): outcomes.get(row.id.rpartition("/")[2], []))
    monkeypatch.setattr(Finder, "score", lambda self, keys: None)
    monkeypatch.setattr(StatisticsReader, "of", lambda self, keys: {})
    return make("demo/small", found, Finder(Ledger(Path("nowhere")), Data(None)), ["params", "bleu"], **options)


def test_every_figure_stands_under_its_own_heading(rows, monkeypatch) -> None:
    outcomes = {
        "base": [done(1, 30.0, params=2_000_000), done(2, 31.0, params=2_000_000)],
        "new": [done(1, 33.0, params=2_500_000, steps=4), done(2, 33.5, params=2_500_000, steps=3)],
        "off": [SeedResult(1, "stopped", "stopped by ASHA at step 2", 2)],
    }
    table = shown(table_of(monkeypatch, rows(TABLE), outcomes))
    assert table["base"] == {
        "row": "base", "system": "base", "params (paper)": "88.0M", "params (ours)": "2.00M", "BLEU (paper)": "27.64",
        "BLEU (ours)": "30.50 ± 0.71", "rank (paper)": "3", "delta": "", "params added": "", "data": "toy-smoke",
        "steps": "4", "seeds": "1, 2", "status": "done",
    }  # fmt: skip
    new, off = table["new"], table["off"]
    assert (new["params (paper)"], new["params (ours)"], new["params added"]) == ("", "2.50M", "+0.50M")
    assert (new["BLEU (paper)"], new["BLEU (ours)"], new["delta"], new["steps"]) == ("28.10", "33.25 ± 0.35", "+2.75", "4, 3")
    assert (off["BLEU (paper)"], off["BLEU (ours)"], off["steps"], off["status"]) == ("28.00", "", "", "stopped by ASHA at step 2")


def test_a_score_is_rounded_once(rows, monkeypatch) -> None:
    """By way of four digits it would be 3.52, and the difference 0.12."""
    new = shown(table_of(monkeypatch, rows(TABLE), {"base": [done(1, 3.4)], "new": [done(1, 3.525003929)]}))["new"]
    assert (new["BLEU (ours)"], new["delta"]) == ("3.53", "+0.13")


def test_a_row_that_does_not_run_is_no_baseline(rows) -> None:
    others = "  length: {kind: analysis, analysis: length, of: [demo/small/a]}\n  theirs: {kind: quoted}\n"
    found = rows(others + "  a: {}\n  b: {model: {d_ff: 40}}\n")
    assert baseline(found) == "demo/small/a" and baseline(found[:2]) is None
    assert baseline([found[2], replace(found[3], pinned=True)]) == "demo/small/b"


COMPARED = """\
  first: {}
  base: {pinned: true, model: {d_ff: 40}}
  child: {init_from: demo/small/first, decode: {beam_size: 2}}
  new: {model: {d_ff: 48}}
  away: {data: {corpus: iwslt14-de-en, subword: {kind: word, size: 200}}, model: {d_ff: 56}}
  away2: {data: {corpus: iwslt14-de-en, subword: {kind: word, size: 200}}, model: {d_ff: 64}}
  valid: {score: {test: valid}, model: {d_ff: 72}}
"""


def test_a_row_is_compared_with_the_one_it_starts_from_else_with_its_corpus_baseline(rows, monkeypatch) -> None:
    bleus = {"first": 10.0, "base": 20.0, "child": 34.0, "new": 45.0, "away": 50.0, "away2": 57.0, "valid": 60.0}
    found = rows(COMPARED)
    table = table_of(monkeypatch, found, {name: [done(1, bleu, name)] for name, bleu in bleus.items()})
    deltas = {line.id.rpartition("/")[2]: line.ours and line.ours.delta for line in table.rows}
    assert deltas == {"first": -10.0, "base": None, "child": 24.0, "new": 25.0, "away": None, "away2": 7.0, "valid": None}
    chosen = table_of(monkeypatch, found, {name: [done(1, bleu, name)] for name, bleu in bleus.items()}, base="demo/small/first")
    deltas = {line.id.rpartition("/")[2]: line.ours and line.ours.delta for line in chosen.rows}
    assert deltas == {"first": None, "base": 10.0, "child": 24.0, "new": 35.0, "away": None, "away2": None, "valid": None}


def test_notes_of_what_is_not_alike(rows) -> None:
    found = rows("  a: {}\n  b: {model: {d_ff: 48}}\n")

    def said(a: list[SeedResult], b: list[SeedResult], scale: str = "") -> str:
        outcomes = {found[0].id: a, found[1].id: b}
        return "\n".join(
            notes(found, outcomes, {row.id: figures(row, outcomes[row.id]) for row in found}, {}, [], scale, found[0].id, None)
        )

    alike = said([done(1, 1.0), done(2, 1.0)], [done(1, 1.0), done(2, 1.0)])
    assert "different" not in alike and "signature: s\n" in f"{alike}\n"
    assert "different seeds" in said([done(1, 1.0), done(2, 1.0)], [done(1, 1.0), done(3, 1.0)]), "as many, yet others"
    assert "signature: s: a; t: b" in said([done(1, 1.0)], [done(1, 1.0, signature="t")])
    environments = said([done(1, 1.0, capsule={"git_commit": "x"})], [done(1, 1.0, capsule={"git_commit": "y"})])
    assert "different environments: git_commit" in environments and "unknown" not in environments
    assert "what trained 1 of 2 runs is unknown" in said([done(1, 1.0, capsule={"git_commit": "x"})], [done(1, 1.0)])


def test_a_speed_is_the_median_of_each_rounds_ratio(tmp_path) -> None:
    """Rounds 8/4, 3/3 and 1/4: the median is 1; medians of each would give 3/4, and the other way round it is 1 too but 2.0 is 0.5."""
    assert ratio_of([8.0, 3.0, 1.0], [4.0, 3.0, 4.0]) == 1.0
    assert ratio_of([6.0], [3.0]) == 2.0
    assert [ratio_of(rates, [1.0, 2.0]) for rates in ([1.0], [], None, [1.0, 0.0])] == [None] * 4
    folder = tmp_path / "speed"
    folder.mkdir()
    measured = {name: {"train_key": f"k{name}", "train_speed": [1.0]} for name in "abc"}

    def write(name: str, when: str, fast: float, *kept: str) -> None:
        each = [measured[row] | ({"train_speed": [fast]} if row == "b" else {}) for row in kept]
        write_document(folder / f"{name:0>16}.json", {"measured": when, "rows": each}, digest(name))

    write("1", "2026-03", 2.0, "a", "b", "c")
    write("2", "2026-02", 3.0, "a", "b", "c")
    write("3", "2026-04", 4.0, "a", "b")
    found, document = ratios(Ledger(tmp_path), {name: [Keys(f"k{name}", None, None)] for name in "abc"}, "a")
    assert found["b"] == {"train_speed": 2.0} and document is not None and document["measured"] == "2026-03"


def test_counts_that_differ_by_more_than_the_last_digit_are_told(rows, tmp_path) -> None:
    assert [unit(text) for text in ("88.0M", "1.5k", "7k", "2G", 12)] == [1e5, pytest.approx(100), 1e3, 1e9, 1.0]
    finder = Finder(Ledger(tmp_path), Data(None))
    base, wide = rows("  base: {pinned: true}\n  wide: {model: {d_ff: 64}}\n")
    sizes = {row.id: int(line.split("counted ")[1].replace(",", "")) for row in (base, wide) for line in told_of(row, finder, 10**9)}
    count, added = sizes[base.id], sizes[wide.id] - sizes[base.id]
    assert added == 2 * (2 * 16 * 32 + 32) * 2, "in each of 4 layers 32 columns of W1, 32 rows of W2 and 32 biases more"
    for off, says in ((0, []), (1, []), (-1, []), (2, [f"base: params reported as {count + 2}, counted {count:,}"])):
        assert told_of(base, finder, count + off) == says
    for given, says in ((added, []), (added + 1, []), (added + 2, [f"wide: params added reported as {added + 2}, counted {added:,}"])):
        row = replace(wide, expect={"params_added": given})
        assert parameter_differences([row], finder, {wide.id: base.id}, [base, row]) == says


def told_of(row: Row, finder: Finder, reported: int) -> list[str]:
    return parameter_differences([replace(row, expect={"params": reported})], finder, {}, [])
