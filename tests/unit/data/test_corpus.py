import gzip

import pytest

from orchestrator.data import corpus
from orchestrator.data.check import check
from tests.unit.conftest import refused


def test_only_newlines_end_lines(tmp_path):
    path = tmp_path / "t"
    path.write_bytes("a\u2028b\x0cc\x85d\r\n\x1ce\n".encode())
    assert corpus.read_lines(path) == ["a\u2028b\x0cc\x85d", "\x1ce"]


def test_gzip_is_told_from_the_content(tmp_path):
    (tmp_path / "plain").write_bytes(b"a\nb\n")
    (tmp_path / "packed").write_bytes(gzip.compress(b"a\nb\n"))
    assert corpus.read_lines(tmp_path / "packed") == ["a", "b"]
    (tmp_path / "marked").write_bytes(gzip.compress("\ufeffa\nb\n".encode()))
    assert corpus.read_lines(tmp_path / "marked") == ["a", "b"], "the byte order mark is no text"
    assert len({corpus.content_of(tmp_path / name) for name in ("plain", "packed", "marked")}) == 1


def test_a_huge_line_is_refused_without_reading_it_all(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 10)
    path = tmp_path / "t"
    path.write_bytes(b"0123456789\n01234567890\n")
    assert refused(corpus.read_lines, path) == [f"{path}: line 2 is longer than 10 bytes; one sentence a line is expected"]


BAD = {
    "unequal": ("train.b", lambda b: b + b"MORE\n", "train.a has 60 lines"),
    "nul": ("train.a", lambda b: b.replace(b"x3\n", b"x\x003\n"), "line 4 has a NUL character"),
    "not UTF-8": ("valid.a", lambda b: b + b"na\xefve\n", "line 7 is not UTF-8: byte 0xef at offset 2 of the line"),
    "CR alone": ("train.b", lambda b: b.replace(b"\n", b"\r"), "train.b: lines end in CR alone; expected LF or CR LF"),
    "CR alone, no end": ("valid.a", lambda b: b.strip().replace(b"\n", b"\r"), "valid.a: lines end in CR alone"),
    "empty line": ("test.b", lambda b: b"\n" + b.split(b"\n", 1)[1], "line 1: empty; test must have none"),
    "empty file": ("valid.b", lambda b: b"", "valid.b has 0 lines"),
}


@pytest.mark.parametrize("what", BAD)
def test_each_fault_is_one_line_that_names_the_file(tiny, tiny_entry, what):
    name, spoil, expected = BAD[what]
    path = tiny / "tiny" / name
    path.write_bytes(spoil(path.read_bytes()))
    problems = [line for line in check(tiny_entry(), tiny).problems if expected in line]
    assert len(problems) == 1 and name in problems[0] and "\n" not in problems[0]


def test_empty_training_lines_are_a_warning(tiny, tiny_entry):
    path = tiny / "tiny" / "train.a"
    path.write_bytes(b"\n\n" + path.read_bytes().split(b"\n", 2)[2])
    report = check(tiny_entry(), tiny)
    assert report.problems == [] and report.splits["train"]["pairs"] == 60
    assert report.warnings == [f"{path}: line 1: empty, the first of 2 such lines; these pairs are left out"]


def test_a_missing_file_names_its_neighbour_and_the_way_to_get_it_and_a_folder_its_option(tiny, tiny_entry):
    (tiny / "tiny" / "train.a").rename(tiny / "tiny" / "trian.a")
    (line,) = check(tiny_entry(), tiny).problems
    assert "tiny/train.a[.gz]: no such file (there is trian.a)" in line and "write it yourself" in line
    for missing in (None, tiny / "nowhere"):
        (line,) = check(tiny_entry(), missing).problems
        assert "--data-dir" in line


def test_overlap_is_a_warning_and_unexpected_content_a_problem(tiny, tiny_entry):
    folder = tiny / "tiny"
    (folder / "valid.a").write_bytes(b"".join((folder / "train.a").read_bytes().splitlines(keepends=True)[:6]))
    entry = tiny_entry()
    usual = {"train": {"pairs": 61}, "test": {"sha256": ["0" * 64, "0" * 64]}}
    splits = {name: split.model_copy(update=usual.get(name, {})) for name, split in entry.splits.items()}
    report = check(entry.model_copy(update={"splits": splits}), tiny)
    assert "6 sources of valid (100.0%) are in train too" in "\n".join(report.warnings)
    assert report.problems[0] == "tiny has 60 training pairs here, 61 expected" and len(report.problems) == 2
    assert "test here is not the expected one: test.a has sha256" in report.problems[1]
