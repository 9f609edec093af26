"""Tokenised BLEU against figures worked out by hand and against sacreBLEU's arithmetic."""

import math

import pytest

from orchestrator.scoring.bleu import multi_bleu, split_hyphenated


def test_by_hand():
    # 7 tokens against 8. Matches: 1-grams 5 of 7, 2-grams 4 of 6, 3-grams 3 of 5, 4-grams 2 of 4
    result = multi_bleu(["the cat sat on the grey rug"], [["the cat sat on the mat today ."]])
    assert result["precisions"] == pytest.approx((100 * 5 / 7, 100 * 4 / 6, 60.0, 50.0))
    assert (result["hypothesis_length"], result["reference_length"]) == (7, 8)
    assert result["brevity_penalty"] == pytest.approx(math.exp(1 - 8 / 7))
    assert result["score"] == pytest.approx(100 * math.exp(-1 / 7) * (5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)


def test_counts_are_clipped_by_the_largest_count_in_one_reference():
    # "the" 4 times; 2 in the first reference, 1 in the second: 2 matches, not 3
    result = multi_bleu(["the the the the"], [["the cat the"], ["the dog"]])
    assert result["precisions"][0] == 50.0 and result["score"] == 0.0


def test_several_references_closest_length_and_ties():
    result = multi_bleu(["a b c d e"], [["a b c d e f"], ["x x x x"]])
    assert result["reference_length"] == 4 and result["brevity_penalty"] == 1.0 and result["score"] == pytest.approx(100.0)
    assert result["signature"] == "multi-bleu|nrefs:2|case:mixed|tok:data|smooth:none|bp:closest"


def test_empty_lines_and_corpora():
    for hypotheses, references in (([], [[]]), ([""], [["a b c d"]]), (["a b c d"], [[""]]), ([""], [[""]])):
        assert multi_bleu(hypotheses, references)["score"] == 0.0
    assert multi_bleu([""], [["a b c"]])["brevity_penalty"] == multi_bleu(["a b c"], [[""]])["brevity_penalty"] == 0.0
    assert multi_bleu(["", "a b c d"], [["q", "a b c d"]])["score"] == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_case_is_of_ascii_letters_only():
    assert multi_bleu(["A B C D"], [["a b c d"]])["score"] == 0.0
    assert multi_bleu(["A B C D"], [["a b c d"]], lowercase=True)["score"] == pytest.approx(100.0)
    lowered = multi_bleu(["Ä b c d e"], [["ä b c d e"]], lowercase=True)
    assert lowered["precisions"][0] == pytest.approx(80.0) and "|case:lc|" in lowered["signature"]


def test_tokens_are_separated_by_ascii_space_only():
    assert multi_bleu(["a\u00a0b  c \t d e"], [["a\u00a0b c d e"]])["hypothesis_length"] == 4


def test_compound_splitting():
    apart = "rich ##AT##-##AT## text format - well ##AT##-##AT## known ##AT##-##AT## fact"
    assert split_hyphenated("rich-text format - well-known-fact") == apart
    assert split_hyphenated("a-b-c -x y-") == "a ##AT##-##AT## b-c -x y-"
    whole = multi_bleu(["a rich-text x"], [["a rich-tect x"]])
    split = multi_bleu(["a rich-text x"], [["a rich-tect x"]], split_compounds=True)
    assert whole["precisions"][0] == pytest.approx(100 * 2 / 3) and split["precisions"][0] == pytest.approx(80.0)
    assert "|tok:data+compounds|" in split["signature"]
