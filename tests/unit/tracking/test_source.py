"""Reading the files: tolerance, numbers, and what never reaches MLflow."""

import json

import pytest

from orchestrator.files.json_lines import read_lines
from orchestrator.tracking.environment import redact
from orchestrator.tracking.history import flatten, number, read_points, text, valid_name
from orchestrator.tracking.source import read_sweep


def test_points_are_numbers_told_once(tmp_path) -> None:
    path = tmp_path / "history.jsonl"
    lines = [
        {"step": 1, "loss": 3.0, "valid": {"bleu": 1}, "flag": True, "word": "x", "none": None},
        {"step": 2, "loss": None, "norm": "inf"},
        {"step": 3, "loss": 1.0},
        {"step": 2, "loss": 9.0, "late": 5.0},
        {"warning": "no step"},
        {"step": 4, "loss": 0.5, "t": 1000.25},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + 'not json\n{"step": 5, "loss": 0.')
    points = read_points(read_lines(path), 100)
    expected = [("loss", 3.0, 101, 1), ("valid.bleu", 1.0, 101, 1), ("loss", 1.0, 103, 3), ("late", 5.0, 102, 2)]
    assert [tuple(point) for point in points] == [*expected, ("loss", 0.5, 1_000_250, 4)]
    assert read_points(read_lines(tmp_path / "missing"), 0) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sweep_id": "a", "rows": [{"seed": 1}]}', '{"sweep_id": "a", "rows": 3}'])
def test_bad_sweep_files_are_named(tmp_path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"bad\.json"):
        read_sweep(path)


def test_names_values_and_secrets() -> None:
    assert dict(flatten({"a": {"b": [1, {"c": 2}]}, "d": {}, "e": []})) == {"a.b.0": 1, "a.b.1.c": 2, "d": {}, "e": []}
    assert [number(value) for value in (1, "2", True, None, [])] == [1.0, None, None, None, None]
    assert valid_name("a b/c-d.e:f_g") == "a b/c-d.e:f_g" and valid_name("λ=1" * 200) == ("__1" * 200)[:250]
    assert text(0.1, 10) == "0.1" and text("x" * 20, 10) == "xxxxxxx..." and text(None, 5) == ""
    assert redact("postgresql://u:p/w@db/x?token=abc&a=1") == "postgresql://***@db/x?token=***&a=1"
