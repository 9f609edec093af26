"""Each judgement with new seeds is a look, which the ledger keeps and no command forgets."""

import json

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.report import looks
from orchestrator.report.claims import Comparisons
from orchestrator.report.find import Finder
from orchestrator.report.judgement import Judgement
from orchestrator.report.looks import Looks, State, level_of
from orchestrator.report.table import make
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data
from tests.unit.conftest import refused
from tests.unit.report.test_effects import TABLE, finish

SHARES = {"base": 0.60, "mine": 0.62, "worse": 0.55}


@pytest.fixture
def rows(spec) -> list[Row]:
    return [row for row in resolve(spec(text=TABLE)) if row.id.rpartition("/")[2] in SHARES]


def judge(rows: list[Row], ledger: Ledger, planned: int | None = None) -> Judgement:
    """The judgement of `mine` on BLEU."""
    finder = Finder(ledger, Data(None))
    outcomes = {row.id: finder.outcomes(row) for row in rows}
    found = Comparisons(
        rows, outcomes, starts(rows, None), finder.reader, planned=dict.fromkeys((row.id for row in rows), planned) if planned else None
    ).judgements
    return next(one for one in found if one.claim.row.endswith("mine") and one.stated)


def train(ledger: Ledger, rows: list[Row], seeds: range, *names: str) -> None:
    for row in rows:
        if (name := row.id.rpartition("/")[2]) in (names or SHARES):
            for seed in seeds:
                finish(ledger, row, seed, SHARES[name])


def test_more_seeds_are_another_look_and_the_same_seeds_are_none(rows: list[Row], tmp_path) -> None:
    ledger = Ledger(tmp_path / "results")
    train(ledger, rows, range(1, 3))
    for _ in range(2):
        first = judge(rows, ledger)
        assert (first.look, first.level) == (1, 0.05)
    train(ledger, rows, range(3, 4), "mine")
    second = judge(rows, ledger)
    assert (second.look, second.level) == (2, 0.0221) and judge(rows, ledger).look == 2, "nobody planned a second look"
    ends = (second.effects[0].at(level).as_json()["other_seeds_and_sentences"] for level in (0.05, second.level))
    assert len({each["high"] for each in ends}) == 2, "the interval is that of the look"
    controlled = [row for row in rows if row.label != "mine"] + [r for r in rows if r.label == "mine"]
    assert judge(controlled, ledger).look == 2, "the order of rows says nothing"
    finder = Finder(ledger, Data(None))
    notes = make("demo/small", rows, finder).notes
    assert any("95 %: worse; 97.8 % (look 2, level 0.0221): mine. p-values" in note for note in notes)
    elsewhere = Ledger(tmp_path / "other", [tmp_path / "results"])
    assert judge(rows, elsewhere).look == 2, "the looks of a mirror count"
    train(ledger, rows, range(3, 4), "worse")
    make("demo/small", rows, Finder(ledger, Data(None)), named={"demo/small/mine"})  # the row `worse` is not shown
    records = json.loads((tmp_path / "results" / looks.LOOKS).read_text())["claims"]
    assert sorted(len(each) for each in records.values()) == [1, 2]
    (mine,) = [each for each in records.values() if each[0]["row"].endswith("mine")]
    assert mine[1]["seeds"]["demo/small/mine"] == [1, 2, 3] and set(mine[1]["judged"]) == {"bleu", "nll"}
    for seeds, look in ((range(1, 3), 1), (range(1, 4), 2)) * 2:
        finder = Finder(ledger, Data(None)).without({1, 2, 3} - {*seeds})
        found = Comparisons(rows, {row.id: finder.outcomes(row) for row in rows}, starts(rows), finder.reader).judgements
        assert {one.look for one in found if one.claim.row.endswith("mine")} == {look}, "two evidences in turns are two looks"


def test_planned_looks_share_the_level(rows: list[Row], tmp_path) -> None:
    ledger = Ledger(tmp_path)
    train(ledger, rows, range(1, 3))
    assert judge(rows, ledger, planned=2).level == 0.0294
    train(ledger, rows, range(3, 4))
    second = judge(rows, ledger)
    assert (second.look, second.level) == (2, 0.0294), "as the sweep planned"
    train(ledger, rows, range(4, 5))
    assert judge(rows, ledger).level == level_of(3) == 0.0182


def test_a_damaged_file_is_refused_and_a_packed_ledger_stays_as_it_is(rows: list[Row], tmp_path) -> None:
    ledger = Ledger(tmp_path)
    train(ledger, rows, range(1, 3))
    judge(rows, ledger)
    path = tmp_path / looks.LOOKS
    path.write_text(path.read_text().replace("demo/small/mine", "demo/small/mind"))
    assert "looks" in refused(judge, rows, ledger)[0]
    path.unlink()
    lock = path.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()  # cannot be written, whoever the user is
    assert judge(rows, ledger).look == 1 and Looks(ledger).claims == {}


def test_levels_and_numbers_of_looks(tmp_path) -> None:
    """Equal looks of two folders count once. More seeds of a control count if a later look has the control."""
    assert [level_of(n) for n in (1, 2, 3)] == [0.05, 0.0221, 0.0182] and level_of(40) < 0.003
    assert [level_of(n, 2) for n in (1, 2, 3)] == [0.0294, 0.0294, 0.0182]
    for known, runs, number in (("12 123 12", "1234", 3), ("12 12/12", "12/123", 2)):
        records = [{"time": place, "runs": dict(enumerate(each.split("/")))} for place, each in enumerate(known.split())]
        assert Looks(Ledger(tmp_path), {"c": records}).number(State("c", "r", "b", {}, dict(enumerate(runs.split("/"))))) == number
