"""`repro`'s verdict, part by part: what may excuse other bits, what must be equal, and how near is near."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.ledger.keys import Keys
from orchestrator.ledger.provenance import flat
from orchestrator.ledger.results import Ledger
from orchestrator.lifecycle.reproduce import _verdict
from orchestrator.lifecycle.verdict import Evidence, Verdict, compare
from orchestrator.scoring.significance.sentence_statistics import packed

TRAIN: dict[str, Any] = {"status": "done", "steps": 6, "params": 10, "weights_sha256": "a" * 64, "valid": {"nll": 2.0}}
LIBRARIES = dict.fromkeys(("torch", "numpy", "sentencepiece", "mlflow", "ray"), "1")
CAPSULE: dict[str, Any] = dict.fromkeys(("git_commit", "dirty_sha256", "device", "python", "threads", "lock_sha256", "hostname"), "1")
CAPSULE |= {"cpu": {"model": "1"}, "system": {"machine": "1"}, "matmul": {"path": "default"}, "libraries": LIBRARIES}
EXCUSES = {
    "git_commit", "dirty_sha256", "device", "cpu.model", "threads", "system.machine", "python", "matmul.path",
    "libraries.torch", "libraries.numpy", "libraries.sentencepiece",
}  # fmt: skip
"""The code, what computes, and the libraries that decide a number: nothing else excuses other bits."""


def evidence(capsule: dict[str, Any] | None = None, texts: str = "x", scores=None, **train) -> Evidence:
    scores = {"": {"bleu": 20.0}, "valid": {"bleu": 10.0}} if scores is None else scores
    return Evidence(TRAIN | train, CAPSULE if capsule is None else capsule, {"hypotheses_sha256": texts * 64}, scores)


def changed(name: str) -> dict[str, Any]:
    """The capsule with another value at the dotted name."""
    first, _, rest = name.partition(".")
    return CAPSULE | {first: CAPSULE[first] | {rest: "2"} if rest else "2"}


@pytest.mark.parametrize("name", sorted(flat(CAPSULE)))
def test_which_part_of_a_capsule_excuses_other_bits(name):
    found = compare(evidence(), evidence(changed(name), weights_sha256="b" * 64))
    excused = name in EXCUSES
    assert (found.verdict, found.reasons) == (("within tolerance", [name]) if excused else ("bits differ", []))
    assert [(part.part, part.decides) for part in found.capsule] == [(name, excused)], "every difference is shown"


def test_a_part_that_one_capsule_lacks_differs():
    less = {name: value for name, value in CAPSULE.items() if name != "git_commit"}
    for one, other in ((CAPSULE, less), (less, CAPSULE)):
        assert compare(evidence(one), evidence(other, weights_sha256="b" * 64)).reasons == ["git_commit"]


OTHER = changed("git_commit")
NEAR = {"weights_sha256": "b" * 64}


@pytest.mark.parametrize(
    ("again", "near"),
    [
        (evidence(OTHER, **NEAR), True),
        (evidence(OTHER, **NEAR, steps=7), False),
        (evidence(OTHER, **NEAR, params=11), False),
        (evidence(OTHER, **NEAR, status="diverged"), False),
        (evidence(OTHER, **NEAR, valid={"nll": 2.01}), True),
        (evidence(OTHER, **NEAR, valid={"nll": 1.9}), False),
        (evidence(OTHER, scores={"": {"bleu": 20.5}, "valid": {"bleu": 10.0}}), True),  # half a point is within
        (evidence(OTHER, scores={"": {"bleu": 19.25}, "valid": {"bleu": 10.0}}), False),
        (evidence(OTHER, scores={"": {"bleu": 20.0}}), False),
        (evidence(OTHER, "y"), True),
    ],
)
def test_other_bits_that_are_excused_are_near_or_not(again, near):
    found = compare(evidence(), again)
    assert found.verdict == ("within tolerance" if near else "outside tolerance") and found.reproduced is near


DIFFERENT = [evidence(**{name: "other"}) for name in ("status", "steps", "params", "weights_sha256")]
DIFFERENT += [evidence(valid={"nll": 2.000001}), evidence(texts="y"), evidence(scores={"": {"bleu": 20.0}, "valid": {"bleu": 10.1}})]


@pytest.mark.parametrize("again", DIFFERENT)
def test_one_difference_is_enough(again):
    assert compare(evidence(), again).verdict == "bits differ"
    assert compare(evidence(), evidence()).verdict == "same bits"
    assert compare(Evidence(TRAIN, CAPSULE, {}, {}), evidence()).verdict == "same bits", "a trial of a search is not decoded"
    assert compare(*(evidence(scores={"": {"bleu": 20.0, "rougeL": each}}) for each in (30.0, 30.1))).verdict == "bits differ"


# ---------------------------------------------------------------- reasons beside the capsule

KEY, OLD = "ab" * 32, "cd" * 32
DECODE, SCORE = "ef" * 32, "01" * 32


def verdict(tmp_path, *, recorded_key: str = KEY, git_commit: str = "1", score: str | None = SCORE, again: str = "b") -> Verdict:
    """Of a run recorded under `recorded_key`, and run again under KEY with other weights. score: the recorded key of the score."""
    ledger, fresh = Ledger(tmp_path / "results"), Ledger(tmp_path / "again")
    for where, key, commit, more in ((ledger, recorded_key, "1", {}), (fresh, KEY, git_commit, {"weights_sha256": again * 64})):
        where.write_train(key, TRAIN | more)
        where.write_capsule(key, CAPSULE | {"git_commit": commit})
        where.write_decode(key, DECODE, {}, ["x", "y"])
        if where is fresh or score == SCORE:
            where.write_record(key, "score", SCORE, {"bleu": 20.0})
    task = SimpleNamespace(id="a/b/c", train_key=KEY, keys=(keys := Keys(KEY, DECODE, SCORE)), scoring_keys={"": keys})
    return _verdict(SimpleNamespace(keys={"a/b/c": Keys(recorded_key, DECODE, score)}), task, ledger, fresh)  # type: ignore[arg-type]


def test_reasons_are_the_commit_and_the_key(tmp_path):
    assert (verdict(tmp_path / "1").verdict, verdict(tmp_path / "1").reasons) == ("bits differ", [])
    commit = verdict(tmp_path / "2", git_commit="2")
    assert (commit.verdict, commit.reasons) == ("within tolerance", ["git_commit"])
    key = verdict(tmp_path / "3", recorded_key=OLD)
    assert key.verdict == "within tolerance" and len(key.reasons) == 1 and key.reasons[0].startswith(f"train key {KEY[:16]}: the data")


def test_a_run_whose_test_was_not_compared_has_not_the_same_bits(tmp_path):
    other = verdict(tmp_path / "1", score="23" * 32, again="a")  # the test text was edited
    assert (other.verdict, other.reasons) == ("outside tolerance", ["no score of this test text is recorded"]) and not other.reproduced
    assert verdict(tmp_path / "2", score=None, again="a").verdict == "same bits", "a trial of a search has no score"
    assert verdict(tmp_path / "3", again="a").verdict == "same bits"


@pytest.mark.parametrize(("nll", "word"), [(2.0, "same bits"), (2.001, "bits differ"), (2.5, "bits differ")])
def test_the_statistics_behind_verdicts_are_compared(nll, word):
    scores = [{"": {"bleu": 20.0, "statistics": packed({"nll": np.array([[each, 1.0], [2.0, 1.0]])})}} for each in (2.0, nll)]
    found = compare(*(evidence(scores=each) for each in scores))
    assert found.verdict == word
    words = {one.what: one.word for one in found.measures}
    assert words["test nll"] == {2.0: "equal", 2.001: "near", 2.5: "differs"}[nll] and words["statistics"] == (
        "equal" if nll == 2.0 else "near"
    )
