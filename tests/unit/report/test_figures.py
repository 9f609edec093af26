"""Figures of a row besides its own score, analysis rows, notes; and tables of a whole folder as one target."""

from pathlib import Path
from typing import get_args

import pytest

from orchestrator.analysis.base import kind_of
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.specs.analyses import KINDS
from orchestrator.specs.json_schema import json_schema
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.table import AnalysisName, number
from orchestrator.sweeps.plan import plan
from tests.unit.conftest import refused

ROWS = (
    "  base: {expect: {bleu: 27.64, valid: 26.1, average: 26.9, significant: true}}\n"
    "  lower: {also: {valid: {lowercase: true}, greedy-cased: null, extra: {metric: mteval}}, means: {average: null, best: [extra]}}\n"
    "  theirs: {kind: quoted, expect: {bleu: 20.7}}\n"
    "  look: {kind: analysis, of: [base, demo/small/lower], note: 'as plotted: \"higher\"', expect: {holds: false}}\n"
)
HEAD = "also: {valid: {test: valid}, greedy-cased: {metric: mteval}}\nmeans: {average: [valid, bleu]}\nanalysis: length\nrows:"


def written(spec, rows: str = ROWS, head: str = HEAD, name: str = "spec.yaml") -> Path:
    path = spec(rows, name=name)
    path.write_text(path.read_text().replace("rows:", head, 1))
    return path


def test_a_row_has_the_files_figures_and_its_own(spec) -> None:
    base, lower, theirs, look = resolve(written(spec))
    figures = [{name: (s.test, s.metric, s.lowercase) for name, s in row.also.items()} for row in (base, lower)]
    assert figures[0] == {"valid": ("valid", "sacrebleu", False), "greedy-cased": ("test", "mteval", False)}
    assert figures[1] == {"valid": ("valid", "sacrebleu", True), "extra": ("test", "mteval", False)}
    assert (base.means, lower.means) == ({"average": ["valid", "bleu"]}, {"best": ["extra"]})
    assert (theirs.also, theirs.means, theirs.analysis) == ({}, {}, None)
    assert (look.of, look.analysis, look.note) == (["demo/small/base", "demo/small/lower"], "length", 'as plotted: "higher"')
    assert base.analysis == "length" and base.expect["significant"] is True and look.expect["holds"] is False
    assert number(True) is None


def test_overrides_and_profiles_reach_other_scorings(spec) -> None:
    path = written(spec, "  r: {also: {news: {test: test_2016_flickr}}, data: {corpus: multi30k-de-en}}\n")
    row = resolve(f"{path}#r", sets=["score.lowercase=true"])[0]
    expected = {"valid": ("valid", True), "greedy-cased": ("test", True), "news": ("test_2016_flickr", True)}
    assert {name: (s.test, s.lowercase) for name, s in row.also.items()} == expected
    smoke = resolve(f"{path}#r", profile="smoke", sets=["data.corpus=multi30k-de-en", "score.test=test_2016_flickr"])[0]
    assert {name: s.test for name, s in smoke.also.items()} == {"valid": "valid", "greedy-cased": "test_2016_flickr", "news": "test"}


def test_the_kinds_of_analyses_are_those_that_there_are() -> None:
    assert get_args(AnalysisName) == KINDS and "length" in KINDS
    assert all(callable(kind_of(name).analyse) for name in KINDS)
    assert "note" in json_schema()["properties"]["rows"]["additionalProperties"]["properties"]


def folder(spec, tmp_path: Path, second: str = "") -> Path:
    spec("  a: {}\n  b: {train: {max_steps: 3}}\n", name="one.yaml")
    path = spec("  a: {}\n", name="two.yaml")
    path.write_text(path.read_text().replace("table: small}", f"table: other}}\n{second}"))
    spec(text="model: {d_ff: 48}\n", name="base.yaml")
    return tmp_path


def test_a_folder_is_all_its_tables(spec, tmp_path) -> None:
    rows = resolve(folder(spec, tmp_path))
    assert [row.id for row in rows] == ["demo/small/a", "demo/small/b", "demo/other/a"]
    assert [p.status for p in plan(rows, [1], ledger=Ledger(tmp_path / "r")).rows] == ["new", "new", "shared"]


def test_the_sweep_of_a_folder_has_all_seeds_and_cuts_nothing(spec, tmp_path) -> None:
    sweep = sweep_of(folder(spec, tmp_path, "sweep: {seeds: [3, 1], concurrency: 2}"))
    assert (sweep.seeds, sweep.concurrency, sweep.scheduler.kind) == ([1, 3], 2, "fifo")
    with pytest.raises(UserError, match=r"two\.yaml:2: sweep\.scheduler\.kind: found asha; expected fifo"):
        sweep_of(folder(spec, tmp_path, "sweep: {scheduler: {kind: asha, rungs: [2]}}"))


def test_bad_folders(spec, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    assert "found no table in this folder" in refused(resolve, tmp_path / "empty")[0]
    spec("  a: {}\n", name="one.yaml")
    spec("  b: {}\n", name="two.yaml")
    assert "two.yaml:1: source: found demo/small, the address of another file too" in refused(resolve, tmp_path)[0]


def test_every_bad_file_of_a_folder_is_told(spec, tmp_path) -> None:
    folder(spec, tmp_path)
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("d_ff: 32", "d_ff: wide"))
    assert [line.split(":")[0].rsplit("/", 1)[-1] for line in refused(resolve, tmp_path)] == ["one.yaml", "two.yaml"]
