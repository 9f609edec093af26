"""Probing data: the file format and what is wrong with files."""

import gzip

import pytest

from orchestrator.data import senteval
from orchestrator.data.senteval import TASKS, load
from tests.unit.conftest import refused

GOOD = "tr\tA\tone two\ntr\tB\ttwo three\nva\tA\tone four\nte\tB\tfour two\n"
EXPECTED = "expected tr, va or te, label and sentence, separated by tabs"


@pytest.mark.parametrize("zipped", [False, True])
def test_instances_of_a_file(zipped: bool, tmp_path) -> None:
    text = GOOD.replace("tr\tA\t", "tr\tA\tmore\t").encode()
    (tmp_path / f"sentence_length.txt{'.gz' * zipped}").write_bytes(gzip.compress(text) if zipped else text)
    sets = load([TASKS["Length"]], tmp_path)
    assert [tuple(row) for row in sets["Length"].to_numpy()] == [
        ("tr", "A", "one two"),  # the sentence is the last field
        ("tr", "B", "two three"),
        ("va", "A", "one four"),
        ("te", "B", "four two"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "tr A one two\n", f"line 5: found 'tr A one two'; {EXPECTED}"),
        (GOOD + "tr\tone two\n", "line 5: found 'tr"),
        (GOOD + "train\tA\tone two\n", "line 5: found 'train"),
        (GOOD + "tr\t \tone two\n", "line 5: found 'tr"),
        (GOOD + "tr\tA\t\n", "line 5: found 'tr"),
        (GOOD.encode() + b"tr\tA\t\xffone\n", "line 5"),
        (GOOD + "tr\tA\ta\0b\n", "line 5 has a NUL character"),
        (GOOD.replace("te\t", "va\t"), "found no line of te; expected instances of tr, va and te"),
        ("", "found no line of tr, va, te"),
        (GOOD.replace("tr\tB", "tr\tA"), "found one label in tr, 'A'; expected two or more"),
        (GOOD + "te\tC\tone five\n", "line 5: found the label 'C'; expected one that tr has"),
    ],
)
def test_a_bad_file_is_one_line_that_says_where(text: str | bytes, said: str, tmp_path) -> None:
    path = tmp_path / "sentence_length.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    fault, missing = refused(load, [TASKS["Length"], TASKS["Tense"]], tmp_path)
    assert fault.startswith(f"{path}: {said}") and "past_present.txt[.gz]: no such file; data/probing of" in missing


def test_a_file_that_was_cut_short_is_refused_in_sentevals_own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(senteval, "LEAST", {"tr": 2, "va": 1, "te": 2})
    folder = tmp_path / senteval.NAME
    for each in (folder, tmp_path / "own"):
        each.mkdir()
        (each / "sentence_length.txt").write_text(GOOD)
    said = refused(load, [TASKS["Length"]], folder)
    assert said[0].startswith(f"{folder / 'sentence_length.txt'}: found 1 lines of te; SentEval has at least 2: download")
    assert len(load([TASKS["Length"]], tmp_path / "own")["Length"]) == 4, "own files have any size"
    (folder / "sentence_length.txt").write_text(GOOD + "te\tA\tfive\n")
    assert len(load([TASKS["Length"]], folder)["Length"]) == 5
