"""YAML as we read it."""

import os

import pytest

from orchestrator.specs import index, yaml_file
from tests.unit.conftest import refused


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("1.0e-4", 1e-4), (".5", 0.5), ("-3", -3), ("0x1F", 31), ("0o17", 15), ("true", True), ("no", "no"), ("on", "on"),
        ("yes", "yes"), ("12:30", "12:30"), ("1_000", "1_000"), ("2020-01-01", "2020-01-01"), ("~", None), ("", None), ("'012'", "012"),
        ('"1e-4"', "1e-4"), ("0", 0), ("<<", "<<"), ("=", "="),
    ],
)  # fmt: skip
def test_scalars_are_yaml_1_2(text: str, value: object) -> None:
    found = yaml_file.parse(f"a: {text}", "f").data["a"]
    assert found == value and type(found) is type(value)


def test_lines_of_keys_and_items() -> None:
    document = yaml_file.parse("a:\n  b:\n    - 1\n    - {c: 2}\n", "f")
    assert document.at(("a", "b", 1, "c")).where == "f:4"
    assert document.at(("a", "b", "nowhere")).where == "f:2", "an unknown key points at its nearest ancestor"


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\na: 2", 2, "twice"), ("x: 1\nm:\n  a: 1\n  b: 1\n  a: 2", 5, "m.a"),
        ("a: !!python/object/apply:os.system [x]", 1, "tags are not allowed"), ("a: !x 1", 1, "tags are not allowed"),
        ("a: !!str 1", 1, "tags are not allowed"), ("a: &x 1\nb: *x", 2, "aliases are not allowed"), ("a: 012", 1, "leading zeros"),
        ("a: 1\nb:\tc", 2, "tab"), ("a: 1\n---\nb: 2", 2, "second document"), ("? [x]\n: 1", 1, "as a key"), ("a: [1, 2", 1, "not YAML"),
        ("a: b: c", 1, "not YAML"), ('a: "\\ud800"', 1, "surrogate"),
        ("a: " + "[" * 60 + "]" * 60, 1, "nesting"), ("[" * 20000, 1, "nested"), ("a\0b: 1", 1, "U+0000"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, line: int, word: str) -> None:
    lines = refused(yaml_file.parse, text, "f.yaml")
    assert any(message.startswith(f"f.yaml:{line}: ") and word in message for message in lines), lines


def test_all_faults_of_a_file_at_once() -> None:
    assert [line.split(":")[1] for line in refused(yaml_file.parse, "a: 012\nb: !x 1\nc: 1\nc: 2\nd: &q 1\n", "f")] == ["1", "2", "4", "5"]


def test_files_that_are_none(tmp_path) -> None:
    contents = {"big": b"#" * (yaml_file.MAX_BYTES + 1), "latin": b"a: 1\nb: \xff\n", "blank": b"# nothing\n", "list": b"- 1\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "fifo")
    for path, word in (
        ("big", "at most"), ("latin", ":2: found byte 0xff at offset 8"), ("fifo", "it is a FIFO; expected a file"),
        ("", "it is a folder; expected a file"), ("blank", "empty"), ("list", "a list at the top level"), ("none.yaml", "no such file"),
        ("/dev/zero", "it is a device; expected a file"),
    ):  # fmt: skip
        (line,) = refused(yaml_file.load, tmp_path / path)
        assert word in line


def test_a_byte_order_mark_is_no_fault(tmp_path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert yaml_file.load(path).data == {"a": 1, "b": 2}


def test_both_parsers_read_shipped_files_alike(monkeypatch) -> None:
    texts = [path.read_text() for path in index.table_files()]
    fast = [yaml_file.parse(text, "x") for text in texts]
    monkeypatch.setattr(yaml_file, "_FastReader", yaml_file._Reader)
    exact = [yaml_file.parse(text, "x") for text in texts]
    assert [(one.data, one.positions) for one in fast] == [(one.data, one.positions) for one in exact]
