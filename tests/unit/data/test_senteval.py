"""Probing data: the file format and what is wrong with files, fetching, labels made from plain text and for the built-in language."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.data import probing_derived, senteval_get, toy, toy_probing
from orchestrator.data.senteval import NAME, SPLITS, TASKS, Part, load, read, split_up, write
from orchestrator.data.toy_lexicon import Lexicon, ToyParams
from orchestrator.errors import UserError

PARAMS = ToyParams(seed=3, vocabulary=60, train=300, valid=40, test=40)
GOOD = "tr\tA\tone two\ntr\tB\ttwo three\nva\tA\tone four\nte\tB\tfour two\n"


def one(text: str | bytes, folder: Path) -> Path:
    path = folder / "sentence_length.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_ten_tasks_in_the_order_of_the_paper() -> None:
    assert [task.column for task in TASKS.values()] == ["SeLen", "WC", "TrDep", "ToCo", "BShif", "Tense", "SubN", "ObjN", "SoMo", "CoIn"]
    assert len({task.file for task in TASKS.values()}) == 10


def test_instances_by_split(tmp_path: Path) -> None:
    one(GOOD.replace("tr\tA\t", "tr\tA\tmore\t"), tmp_path)
    found = load([TASKS["Length"]], tmp_path)["Length"]
    assert found["tr"] == Part(["one two", "two three"], ["A", "B"]), "the sentence is the last field"
    assert (found["va"].labels, found["te"].sentences) == (["A"], ["four two"])


def test_written_files_are_read_again_also_gzipped(tmp_path: Path) -> None:
    made = toy_probing.generate(PARAMS)["Tense"]
    write(made, tmp_path / "past_present.txt")
    assert load([TASKS["Tense"]], tmp_path)["Tense"] == made
    (tmp_path / "past_present.txt.gz").write_bytes(gzip.compress((tmp_path / "past_present.txt").read_bytes()))
    (tmp_path / "past_present.txt").unlink()
    assert load([TASKS["Tense"]], tmp_path)["Tense"] == made
    with pytest.raises(ValueError, match="tab or line feed"):
        write(made | {"te": Part(["a\tb"], ["x"])}, tmp_path / "bad.txt")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "tr A one two\n", "line 5: found 1 field; expected split, label and sentence, separated by tabs"),
        (GOOD + "tr\tone two\n", "line 5: found 2 fields; expected"),
        (GOOD + "train\tA\tone two\n", "line 5: found the split 'train'; expected tr, va or te"),
        (GOOD + "tr\t \tone two\n", "line 5: found an empty label; expected text"),
        (GOOD + "tr\tA\t\n", "line 5: found an empty sentence; expected text"),
        (GOOD.encode() + b"tr\tA\t\xffone\n", "line 5: found byte 0xff at offset 5; expected UTF-8"),
        (GOOD + "tr\tA\ta\0b\n", "line 5: found a NUL character; expected text"),
        (GOOD.replace("te\t", "va\t"), "found no line of te; expected instances of tr, va and te"),
        ("", "found no line of tr, va, te"),
        (GOOD.replace("tr\tB", "tr\tA"), "found one label in tr, 'A'; expected two or more"),
        (GOOD + "te\tC\tone five\n", "line 5: found the label 'C'; expected one that tr has"),
    ],
)
def test_a_bad_file_is_one_line_that_says_where(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = one(text, tmp_path)
    _, faults = read(path)
    assert len(faults) == 1 and faults[0].startswith(f"{path}: {said}")


def test_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    one("tr\tA\nx\tA\tone\n" + "te\n" * 30, tmp_path)
    with pytest.raises(UserError) as caught:
        load([TASKS["Length"], TASKS["Tense"]], tmp_path)
    lines = caught.value.lines
    assert "line 1: found 2 fields" in lines[0] and "line 2: found the split 'x'" in lines[1]
    assert lines[10].endswith("22 more bad lines") and "past_present.txt[.gz]: no such file; get it with: nmt-ablate data get" in lines[11]
    assert len(lines) == 12


def test_split_up_keeps_no_label_that_cannot_be_learnt() -> None:
    found = split_up([str(i) for i in range(20)], ["a", "b"] * 8 + ["c"] * 4)
    assert [len(found[split]) for split in SPLITS] == [16, 0, 0]
    assert split_up(["s"] * 20, ["a", "b"] * 10)["te"].labels == ["a", "b"]


# ---------------------------------------------------------------- fetching


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the repository."""
    folder = tmp_path / "served"
    folder.mkdir()
    for task in TASKS.values():
        (folder / task.file).write_text(GOOD)
    monkeypatch.setattr(senteval_get, "BASE", folder.as_uri())
    return folder


def test_get_fetches_what_is_not_there(served: Path, tmp_path: Path, cli: Any) -> None:
    place = tmp_path / "data" / NAME
    place.mkdir(parents=True)
    (place / "tree_depth.txt").write_text("mine")
    code, out, err = cli("data", "get", NAME, "--data-dir", tmp_path / "data")
    assert code == 0 and len(out.splitlines()) == 9 and "9 files written" in err
    assert (place / "tree_depth.txt").read_text() == "mine" and len(load([TASKS["WordContent"]], place)["WordContent"]["tr"]) == 2
    code, out, err = cli("data", "check", NAME, "--data-dir", tmp_path / "data")
    assert code == 2 and err.count("error: ") == 1 and "tree_depth.txt: line 1: found 1 field" in err


def test_what_cannot_be_fetched_or_is_bad_leaves_nothing(served: Path, tmp_path: Path, cli: Any) -> None:
    (served / "tree_depth.txt").unlink()
    (served / "bigram_shift.txt").write_text("<html>")
    code, _, err = cli("data", "get", NAME, "--data-dir", tmp_path)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 2 and len(errors) == 2
    assert "is there a network?" in errors[0] and "delivered a bad file: line 1: found 1 field" in errors[1]
    assert len(list((tmp_path / NAME).iterdir())) == 8, "neither bad nor temporary files"
    assert cli("data", "get", NAME)[0] == 2


# ---------------------------------------------------------------- labels from plain text


def text_of(count: int) -> list[str]:
    return [source for source, _ in toy.generate(PARAMS.model_copy(update={"train": count}))["train"]]


def test_length_labels_are_the_bins_of_the_words() -> None:
    made = probing_derived.derive(text_of(900))["Length"]
    for part in made.values():
        for sentence, label in zip(part.sentences, part.labels, strict=True):
            low, _, high = label.partition("-")
            assert int(low) <= len(sentence.split()) <= int(high or low)
    shares = Counter(made["tr"].labels)
    assert 4 <= len(shares) <= 6 and max(shares.values()) < 0.4 * len(made["tr"])


def test_word_content_has_its_target_once_and_no_other() -> None:
    made = probing_derived.derive([line.replace(" .", ".") for line in text_of(900)])["WordContent"]
    targets = set(made["tr"].labels)
    assert len(targets) >= 5
    for part in made.values():
        for sentence, label in zip(part.sentences, part.labels, strict=True):
            words = [word.rstrip(".?,") for word in sentence.lower().split()]
            assert [word for word in words if word in targets] == [label]


def test_bigram_shift_exchanges_two_neighbours() -> None:
    lines = text_of(900)
    known, made = {tuple(line.split()) for line in lines}, probing_derived.derive(lines)["BigramShift"]
    assert abs(Counter(made["tr"].labels)["I"] / len(made["tr"]) - 0.5) < 0.01
    for sentence, label in zip(made["tr"].sentences, made["tr"].labels, strict=True):
        words = sentence.split()
        back = [(*words[:i], words[i + 1], words[i], *words[i + 2 :]) for i in range(1, len(words) - 1)]
        assert (tuple(words) in known) if label == "O" else any(other in known for other in back)
        assert words[-1] in ".?", "punctuation stays"


def test_derived_is_the_same_again_and_needs_some_text() -> None:
    lines = text_of(300)
    assert probing_derived.derive(lines) == probing_derived.derive(lines) != probing_derived.derive(lines, seed=2)
    with pytest.raises(UserError, match="found 1 distinct sentences; expected 30 at least"):
        probing_derived.derive(["the same"] * 100)


# ---------------------------------------------------------------- the built-in language


def test_toy_tense_and_number_are_those_of_the_translation() -> None:
    """Side B's verb of the same node says both by endings of its own."""
    lexicon, seen = Lexicon(PARAMS), Counter[str]()
    for a, b in toy.aligned(PARAMS)["train"]:
        at = -3 if a[-1][0] == "?" else -2
        tense, number = toy_probing.verbs(lexicon, [" ".join(word for word, _ in a)])
        verb = next(word for word, node in b if node == a[at][1] and word not in (*lexicon.pronoun_b, *lexicon.future_b))
        if tense.labels:
            seen[tense.labels[0]] += 1
            assert verb.removesuffix("x").endswith("ado") == (tense.labels == ["PAST"])
        if tense.labels and number.labels:
            seen[number.labels[0]] += 1
            assert verb.endswith("x") == (number.labels == ["NNS"])
    assert min(seen[label] for label in ("PAST", "PRES", "NN", "NNS")) > 20


def test_toy_probing_sentences_are_new() -> None:
    made = toy_probing.generate(PARAMS)
    assert list(made) == ["Length", "WordContent", "BigramShift", "Tense", "SubjNumber"]
    assert set(made) | set(toy_probing.NOT_MADE) == set(TASKS)
    corpus = {source for pairs in toy.generate(PARAMS).values() for source, _ in pairs}
    for name, parts in made.items():
        texts = [sentence for part in parts.values() for sentence in part.sentences]
        assert len(texts) == len(set(texts)) and (name == "BigramShift" or not corpus & set(texts)), name
    assert made == toy_probing.generate(PARAMS) != toy_probing.generate(PARAMS.model_copy(update={"seed": 4}))
