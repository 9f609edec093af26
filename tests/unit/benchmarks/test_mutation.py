"""The tool that measures what the tests hold: a mutant is told to be killed, survived or neither, and the copy is as it was."""

from __future__ import annotations

import mutation
import pytest
import yaml

CODE = "def twice(x):\n    return 2 * x\n"
TEST = "from code_under_test import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n"


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_it.py").write_text(TEST)
    return tmp_path


def mutant(find: str, replace: str) -> dict[str, object]:
    return {"what": "a change", "file": "code_under_test.py", "find": find, "replace": replace, "tests": ["test_it.py"]}


@pytest.mark.slow
def test_a_mutant_is_killed_survives_or_neither(copy):
    found = [mutation.outcome(one, copy) for one in (mutant("2 * x", "3 * x"), mutant("2 * x", "x * x"), mutant("2 * x", "2 * (x"))]
    assert [one["outcome"] for one in found] == ["killed", "survived", "pytest's exit code 2"]
    assert "test_twice" in found[0]["said"]
    assert (copy / "code_under_test.py").read_text() == CODE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"find": "4 * x"}, "entry 2 (a change): code_under_test.py holds it 0 times; expected exactly one '4 * x'"),
        ({"find": "x"}, "code_under_test.py holds it 2 times"),
        ({"file": "absent.py"}, "absent.py is no file"),
        ({"replace": "2 * x"}, "find and replace are the same"),
        ({"tests": []}, "expected file, find, replace, tests, what"),
    ],
)
def test_an_entry_that_does_not_fit_is_named(copy, monkeypatch, change, message):
    monkeypatch.setattr(mutation, "MUTANTS", copy)
    (copy / "area.yaml").write_text(yaml.safe_dump([mutant("2 * x", "x"), mutant("2 * x", "x") | change]))
    with pytest.raises(SystemExit) as error:
        mutation.load("area", copy)
    assert message in str(error.value) and str(error.value).startswith("error: area.yaml, entry 2")


def test_the_mutants_here_fit_the_code():
    areas = sorted(path.stem for path in mutation.MUTANTS.glob("*.yaml"))
    assert areas and all(mutation.load(area) for area in areas)
