"""What a table shows beside BLEU: other scorings, means, speeds, marks, counts, conditions; rows that are not runs."""

from dataclasses import replace

import pytest

from orchestrator.files.canonical import digest
from orchestrator.files.documents import write_document
from orchestrator.ledger.results import Ledger
from orchestrator.report.cells import layout
from orchestrator.report.figures import OURS
from orchestrator.report.find import Finder
from orchestrator.report.table import make
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.specs.table import RESERVED
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.conftest import MINIMAL
from tests.unit.report.support import shown, write_run

HEAD = MINIMAL.replace("rows:", "also: {valid: {test: valid}, folded: {lowercase: true}}\nmeans: {average: [bleu, folded]}\nrows:")
ROWS = """\
  old: {label: before, model: {d_ff: 40}, expect: {bleu: 26.0, train_speed: 2.0, average: 41.2}}
  base: {label: Baseline, pinned: true, expect: {bleu: 27.64, valid: 26.13, train_speed: 1.82, average: 41.25}, note: all rows start here}
  fused: {label: fused, model: {d_ff: 48}, expect: {bleu: 28.09, train_speed: 0.91, significant: true, params: 1.5M}}
  theirs: {kind: quoted, label: theirs, expect: {bleu: 20.73, significant: false}}
  length: {kind: analysis, analysis: length, of: [demo/small/base], label: by length, note: the gain grows with length}
"""
FIGURES = {"old": {1: (20.0, 21.0, 22.0)}, "base": {1: (30.0, 31.0, 32.0), 2: (32.0, 33.0, 36.0)}, "fused": {1: (33.0, 30.0, 35.0)}}


@pytest.fixture
def rows(spec) -> list[Row]:
    return resolve(spec(ROWS, head=HEAD))


@pytest.fixture
def made(rows: list[Row], tmp_path):
    """`made(**options)`: the table of FIGURES."""
    ledger = Ledger(tmp_path / "results")
    for row in rows:
        for seed, scores in FIGURES.get(row.id.rsplit("/", 1)[1], {}).items():
            own = row.at(seed)
            for one, bleu in zip(
                (*(own.rescored(row.also[name]) for name in ("valid", "folded")), own), (*scores[1:], scores[0]), strict=True
            ):
                write_run(ledger, one, bleu=bleu)
    return lambda **options: make("demo/small", rows, Finder(ledger, Data(None)), ["params", "bleu"], **options)


def test_other_scorings_and_means(made) -> None:
    found = {row["label"]: row["ours"] for row in made().as_json()["rows"]}
    assert (found["Baseline"]["valid"], found["Baseline"]["folded"]) == (32.0, 34.0)
    assert found["Baseline"]["average"] == 32.5, "of both figures over both seeds"
    assert (found["fused"]["bleu"], found["fused"]["valid"], found["fused"]["average"]) == (33.0, 30.0, 34.0)
    line = shown(made())["base"]
    assert (line["valid (paper)"], line["valid (ours)"], line["folded"]) == ("26.13", "32.00", "34.00")
    assert (line["data"], line["steps"], line["seeds"], line["status"]) == ("toy-smoke", "4", "1, 2", "done")
    other = replace(made(), columns=["bleu", "score"], scores=frozenset({"score"}))
    assert "score" not in shown(other)["base"], "the rows have no scoring of this name"


def test_booleans_notes_quoted_and_analyses(made) -> None:
    table, lines = made(), shown(made())
    assert lines["fused"]["significant (paper)"] == "yes" and lines["theirs"]["significant (paper)"] == "no"
    reported = {row["label"]: row["reported"] for row in table.as_json()["rows"]}
    assert reported["fused"]["significant"] is True and reported["fused"]["params"] == 1.5e6
    assert lines["theirs"]["status"] == "quoted"
    assert lines["length"]["status"] == "analysis (length): the gain grows with length"
    assert "base: all rows start here" in table.notes
    assert lines["old"]["average (paper)"] == "41.20", "as many digits as the column has"


def test_speeds_are_ratios_in_the_whole_table_and_in_a_part_of_it(made, rows: list[Row], tmp_path) -> None:
    lines = shown(made())
    column = "train speed × base (paper)"
    assert [lines[name][column] for name in ("old", "base", "fused", "theirs")] == ["1.10", "1.00", "0.50", ""]
    assert any("ours are not measured" in note for note in made().notes)
    assert made().as_json()["rows"][0]["reported"]["train_speed"] == 2.0, "as the file has them"
    measured = [{"train_key": keys_for(row, Data(None)).train, "train_speed": [2.0 + i]} for i, row in enumerate(rows[:3])]
    (tmp_path / "results" / "speed").mkdir()
    write_document(tmp_path / "results" / "speed" / f"{1:016}.json", {"rows": measured, "batch": 32, "forced_length": True}, digest("1"))
    whole, part = (made(named=named) for named in (None, [rows[0].id, rows[2].id]))
    unlike = "train speed × base (ours)", "train speed × base (paper)"
    assert [shown(part)["fused"][name] for name in unlike] == [shown(whole)["fused"][name] for name in unlike] == ["1.33", "0.50"]
    for said in ("not compared: old, fused (", "(decoded in batches of 32, outputs forced to the source's length)"):
        assert any(said in note for note in part.notes)
    assert [layout(each).notes[0].partition(":")[0] for each in (whole, part)] == ["in all rows with figures", "in all rows"]


def test_no_figure_of_a_table_may_have_the_name_of_a_column() -> None:
    assert {*OURS} <= RESERVED
