"""ROUGE: figures that can be worked out by hand, sentences for ROUGE-L, several references, and what a score record holds."""

from __future__ import annotations

import pytest

from orchestrator.analysis.kinds.lead import lead
from orchestrator.scoring.rouge import figures_of, principal, rouge
from orchestrator.scoring.scores import score
from orchestrator.specs.schema import ScoreSpec


class Data:
    target_language = "en"

    def __init__(self, *streams):
        self.streams = [list(stream) for stream in streams]

    def references(self, split):
        return self.streams

    def reference_text(self, split):
        return self.references(split)

    def tokenise(self, lines, side):
        return lines


def test_by_hand():
    found = rouge(["the cat sat on mats ."], [["the cat lay on the mat ."]])
    # stemmed: the cat sat on mat / the cat lay on the mat; unigrams 4 of 5 and 6, bigrams 1 of 4 and 5, longest subsequence 4
    assert found["rouge1"] == pytest.approx(100 * 2 * (4 / 5) * (4 / 6) / (4 / 5 + 4 / 6))
    assert found["rouge2"] == pytest.approx(100 * 2 * (1 / 4) * (1 / 5) / (1 / 4 + 1 / 5))
    assert found["rougeL"] == pytest.approx(found["rouge1"])
    assert "rouge-score" in found["signature"] and "stem:porter" in found["signature"]


def test_rouge_l_is_of_sentences():
    """The order of sentences does not matter to the summary-level figure; as one sentence it does."""
    reference = ["one two three . <q> four five six ."]
    assert rouge(["four five six . <q> one two three ."], [reference])["rougeL"] == pytest.approx(100)
    assert rouge(["four five six . one two three ."], [[reference[0].replace(" <q>", "")]])["rougeL"] < 60


def test_the_mark_is_no_word():
    marked, plain = (rouge([line], [["a b"]])["rouge1"] for line in ("a <q> b", "a b"))
    assert marked == plain == pytest.approx(100)


def test_the_best_reference_counts_and_empty_summaries_do():
    assert rouge(["a b c"], [["x y z"], ["a b c"]])["rouge2"] == pytest.approx(100)
    assert rouge(["", "a b"], [["a b", "a b"]])["rouge1"] == pytest.approx(50)
    with pytest.raises(ValueError):
        rouge(["a"], [["a", "b"]])


def test_a_record_of_rouge():
    data = Data(["a b c d . <q> e f g h ."])
    record = score(["a b c d . <q> e f g h ."], ["a b c d . <q> e f g h ."], data, "test", ScoreSpec(metric="rouge"))
    assert record["rougeL"] == principal(record) == pytest.approx(100) and record["signature"].startswith("ROUGE-F1|")
    assert figures_of(record).keys() == {"rouge1", "rouge2", "rougeL"}
    assert record["sacrebleu"]["hypothesis_length"] == 10  # the mark is no word of BLEU either
    plain = score(["a b c d"], ["a b c d"], Data(["a b c d"]), "test", ScoreSpec())
    assert figures_of(plain) == {} and principal(plain) == plain["bleu"]


def test_lead():
    assert lead(["One . <q> Two . <q> Three . <q> Four .", "Alone ."], 3) == ["One . <q> Two . <q> Three .", "Alone ."]
