"""Corpus files that are no files, and corpora that are no corpora: one line, exit code 2, and no waiting."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.data import corpus
from orchestrator.data.check import check
from orchestrator.data.prepare import manifest
from orchestrator.data.text import CorpusText
from orchestrator.specs.schema import DataSpec, Subword
from tests.unit.conftest import refused

SPEC = DataSpec(corpus="tiny", subword=Subword(size=120))

INSTEAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO": (os.mkfifo, "it is a FIFO; expected a file"),
    "a folder": (os.mkdir, "it is a folder; expected a file"),
    "a loop": (lambda path: path.symlink_to(path.name), "it is a link that leads back to itself; expected a file"),
    "a dead link": (lambda path: path.symlink_to("gone"), "it is a link to gone, which is not there; expected a file"),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_is_no_file_is_named_and_never_waited_for(what: str, tiny: Path, tiny_entry) -> None:
    make, expected = INSTEAD[what]
    path = tiny / "tiny" / "train.a"
    path.unlink()
    make(path)
    for call in (lambda: check(tiny_entry(), tiny), lambda: manifest(SPEC, tiny), lambda: corpus.read_lines(path)):
        assert refused(call) == [f"{path}: {expected}"]


def test_a_text_of_empty_lines_is_a_problem(tiny: Path, tiny_entry) -> None:
    for name in ("train.a", "test.b"):
        path = tiny / "tiny" / name
        good = path.read_text()
        path.write_text("\n" * good.count("\n"))
        assert f"{path}: all {good.count(chr(10))} lines are empty; expected text" in check(tiny_entry(), tiny).problems
        path.write_text(good)
    assert check(tiny_entry(), tiny).problems == []


def test_a_text_as_its_own_translation_is_a_problem(tiny: Path, tiny_entry) -> None:
    source, target = (tiny / "tiny" / name for name in ("train.a", "train.b"))
    target.write_text(source.read_text())
    expected = f"{source} and {target} hold the same text; expected a text and its translation"
    assert check(tiny_entry(), tiny).problems == [expected]
    rows = "src,tgt\n" + "".join(f"{line},{line}\n" for line in source.read_text().splitlines())
    for stem in ("train", "valid", "test"):
        (tiny / "tiny" / f"{stem}.csv").write_text(rows.replace("x", stem))
    splits = {stem: {"src": f"{stem}.csv", "tgt": [f"{stem}.csv"]} for stem in ("train", "valid", "test")}
    problems = check(tiny_entry(csv={"src": "src", "tgt": "tgt"}, splits=splits), tiny).problems
    assert len(problems) == 3 and all("csv, column src and " in line and "hold the same text" in line for line in problems)
    (tiny / "tiny" / "train.csv").write_text("src,tgt\nein\0 Haus,a\0house\n")
    assert list(CorpusText(tiny_entry(csv={"src": "src", "tgt": "tgt"}, splits=splits), tiny).rows("train")) == [("ein Haus", "a house")]


def test_valid_equal_to_test_is_a_problem(tiny: Path, tiny_entry) -> None:
    expected = ["tiny: valid and test hold the same sources; expected different sentences to choose by and to score on"]
    twice = {"src": "valid.a", "tgt": ["valid.b"]}
    splits = {"train": {"src": "train.a", "tgt": ["train.b"]}, "valid": twice, "test": twice}
    assert check(tiny_entry(splits=splits), tiny).problems == expected, "by the entry itself"
    for side in "ab":
        (tiny / "tiny" / f"test.{side}").write_bytes((tiny / "tiny" / f"valid.{side}").read_bytes())
    assert check(tiny_entry(), tiny).problems == expected
