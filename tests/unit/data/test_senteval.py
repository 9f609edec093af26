"""Probing data: the file format and what is wrong with files, and labels for the built-in language."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.data import toy, toy_probing
from orchestrator.data.senteval import TASKS, load, split_up
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.errors import UserError
from orchestrator.specs.corpora import ToyParams

PARAMS = ToyParams(seed=3, vocabulary=60, train=300, valid=40, test=40)
GOOD = "tr\tA\tone two\ntr\tB\ttwo three\nva\tA\tone four\nte\tB\tfour two\n"
EXPECTED = "expected tr, va or te, label and sentence, separated by tabs"


@pytest.mark.parametrize("zipped", [False, True])
def test_instances_of_a_file(zipped: bool, tmp_path: Path) -> None:
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
def test_a_bad_file_is_one_line_that_says_where(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "sentence_length.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        load([TASKS["Length"], TASKS["Tense"]], tmp_path)
    fault, missing = caught.value.lines
    assert fault.startswith(f"{path}: {said}") and "past_present.txt[.gz]: no such file; data/probing of" in missing


def test_split_up_keeps_no_label_that_cannot_be_learnt() -> None:
    found = split_up([str(i) for i in range(20)], ["a", "b"] * 8 + ["c"] * 4)
    assert set(found["split"]) == {"tr"} and len(found) == 16
    whole = split_up(["s"] * 20, ["a", "b"] * 10)
    assert whole["split"].tolist() == ["tr"] * 16 + ["va"] * 2 + ["te"] * 2


def test_bigram_shift_exchanges_two_neighbours() -> None:
    lines = [source for source, _ in toy.generate(PARAMS)["train"]]
    known, made = {tuple(line.split()) for line in lines}, toy_probing.bigram_shift(lines, 1)
    assert abs(Counter(label for _, label in made)["I"] / len(made) - 0.5) < 0.01
    for sentence, label in made:
        words = sentence.split()
        back = [(*words[:i], words[i + 1], words[i], *words[i + 2 :]) for i in range(1, len(words) - 1)]
        assert (tuple(words) in known) if label == "O" else any(other in known for other in back)
        assert words[-1] in ".?", "punctuation stays"


def test_toy_tense_and_number_are_those_of_the_translation() -> None:
    """In a plain clause, side B has one verb, whose endings say both."""
    plain = PARAMS.model_copy(update={"complexity": 0.0, "idioms": 0.0})
    lexicon, seen = Lexicon(plain), Counter[str]()
    classes = (lexicon.intransitive, lexicon.transitive, lexicon.ditransitive, lexicon.saying)
    stems = {stem for verbs in classes for verb in verbs.items for stem in verb.targets}
    forms = {stem + ending for stem in stems for ending in lexicon.verb_b.values()}
    for source, target in toy.generate(plain)["train"]:
        found = toy_probing.verbs(lexicon, [source])
        tense, number = ([label for _, label in found[name]] for name in ("Tense", "SubjNumber"))
        (verb,) = (word for word in target.split() if word in forms)
        seen.update(tense + number)
        if tense:
            assert verb.removesuffix("x").endswith("ado") == (tense == ["PAST"])
        if tense and number:
            assert verb.endswith("x") == (number == ["NNS"])
    assert min(seen[label] for label in ("PAST", "PRES", "NN", "NNS")) > 20


def test_toy_probing_sentences_are_new() -> None:
    made = toy_probing.generate(PARAMS)
    assert list(made) == ["Length", "BigramShift", "Tense", "SubjNumber"]
    assert 4 <= made["Length"]["label"].nunique() <= 6 and made["Length"]["label"].value_counts(normalize=True).max() < 0.4
    corpus = {source for pairs in toy.generate(PARAMS).values() for source, _ in pairs}
    for name, instances in made.items():
        texts = instances["sentence"].tolist()
        assert len(texts) == len(set(texts)) and (name == "BigramShift" or not corpus & set(texts)), name
    again, other = (toy_probing.generate(params) for params in (PARAMS, PARAMS.model_copy(update={"seed": 4})))
    assert all(instances.equals(again[name]) for name, instances in made.items()) and not made["Length"].equals(other["Length"])
