"""ROUGE: figures that can be worked out by hand, sentences for ROUGE-L, several references, and what a score record holds."""

import pytest

from orchestrator.analysis.kinds.untrained import lead
from orchestrator.scoring.rouge import figures_of, principal, rouge
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation
from orchestrator.specs.bleu_tokenizer import score_fields
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text


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


def test_the_best_reference_counts_and_empty_summaries_do():
    assert rouge(["a b c"], [["x y z"], ["a b c"]])["rouge2"] == pytest.approx(100)
    assert rouge(["", "a b"], [["a b", "a b"]])["rouge1"] == pytest.approx(50)
    with pytest.raises(ValueError):
        rouge(["a"], [["a", "b"]])


def test_a_record_of_rouge():
    data = Text(["a b c d . <q> e f g h ."])
    record = score(["a b c d . <q> e f g h ."], ["a b c d . <q> e f g h ."], data, "test", ScoreSpec(metric="rouge"))
    assert record["rougeL"] == principal(record) == pytest.approx(100) and record["signature"].startswith("ROUGE-F1|")
    assert figures_of(record).keys() == {"rouge1", "rouge2", "rougeL"}
    assert record["sacrebleu"]["hypothesis_length"] == 10  # the mark is no word of BLEU either
    plain = score(["a b c d"], ["a b c d"], Text(["a b c d"]), "test", ScoreSpec())
    assert figures_of(plain) == {} and principal(plain) == plain["bleu"]


@pytest.mark.parametrize(
    ("target", "reference", "hypothesis", "common", "tokens"),
    [
        ("zh", "我昨天在公园里和朋友聊天。", "我昨天和朋友在公园。", 9, (9, 12)),
        ("ru", "Вчера я долго гулял, потом спал.", "вчера я гулял.", 3, (3, 6)),
        ("de", "Für Jürgen gibt es Brötchen!", "Für Bärbel gibt es Brot .", 3, (5, 5)),  # ü does not end a word
    ],
)
def test_words_of_other_languages(target, reference, hypothesis, common, tokens):
    """Characters of Chinese, words of Russian and German: no punctuation, no case, and the key of the score names the tokeniser."""
    data = Text([reference, reference], target=target)
    record = score([hypothesis, reference], [hypothesis, reference], data, "test", ScoreSpec(metric="rouge"))
    assert record["rouge1"] == pytest.approx(50 * 2 * common / sum(tokens) + 50)
    assert "stem:no|tok:" in record["signature"]
    sums = of_translation([hypothesis, reference], [hypothesis, reference], data, "test", ScoreSpec(metric="rouge"))["rougeL"].sum(axis=0)
    assert sums[0] / sums[1] == pytest.approx(record["rougeL"])
    fields = [score_fields({}, ScoreSpec(metric="rouge"), {"languages": ["en", to]}) for to in ("en", target)]
    assert "rouge" not in fields[0] and fields[1]["rouge"] in ("zh", "13a")


def test_lead():
    assert lead(["One . <q> Two . <q> Three . <q> Four .", "Alone ."], 3) == ["One . <q> Two . <q> Three .", "Alone ."]
