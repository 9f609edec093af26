"""All figures of a test set with their signatures; mteval's rules."""

import json
import math

import pytest

from orchestrator.errors import UserError
from orchestrator.scoring.bleu import mteval, multi_bleu
from orchestrator.scoring.scores import score
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

REFERENCES = [
    ["A well-known man, reading a book.", "Two dogs run here."],
    ["A famous man reading a book.", "Two dogs are running over there."],
]
TEXT = ["A well-known man reading a book.", "Two dogs run over there."]
TOKENS = ["A well-known man reading a book .", "Two dogs run over there ."]


class Prepared(Text):
    def tokenise(self, lines, side):
        assert side == "tgt"
        return [line.replace(".", " .").replace(",", " ,") for line in lines]


def test_all_figures_are_reported_and_the_asked_one_is_bleu():
    keys = {"sacrebleu": "sacrebleu", "multi-bleu": "tokenised", "mteval": "mteval"}
    results = {metric: score(TEXT, TOKENS, Prepared(*REFERENCES), "test", ScoreSpec(metric=metric)) for metric in keys}
    for metric, key in keys.items():
        result = results[metric]
        assert result["metric"] == metric and result["sentences"] == 2
        assert result["bleu"] == result[key]["score"] and result["signature"] == result[key]["signature"]
        assert result[key] == results["sacrebleu"][key]
        assert json.loads(json.dumps(result, allow_nan=False))["chrf"]["score"] > 0
    assert results["sacrebleu"]["signature"].startswith("BLEU|nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert results["multi-bleu"]["signature"] == "multi-bleu|nrefs:2|case:mixed|tok:data|smooth:none|bp:closest"
    assert results["mteval"]["signature"].startswith("mteval-v13a|nrefs:2|case:mixed|tok:13a|smooth:exp|bp:closest|sacrebleu:")
    assert results["sacrebleu"]["chrf"]["signature"].startswith("chrF2|nrefs:2|case:mixed|eff:yes|nc:6|nw:0|")
    tokenised = [Prepared().tokenise(stream, "tgt") for stream in REFERENCES]
    assert results["multi-bleu"]["bleu"] == multi_bleu(TOKENS, tokenised)["score"] > 0
    for option, case, tokens in (("lowercase", "|case:lc|", "tok:data|"), ("split_compounds", "|case:mixed|", "tok:data+compounds|")):
        changed = score(TEXT, TOKENS, Prepared(*REFERENCES), "test", ScoreSpec(**{option: True}))
        assert f"{case}{tokens}" in changed["tokenised"]["signature"]
        assert all(case in changed[key]["signature"] for key in ("sacrebleu", "mteval"))


def test_mteval_takes_the_closest_length():
    hypotheses, references = ["a b c d e f"], [["a b c d e f g"], ["a b c"]]
    assert mteval(hypotheses, references)["score"] == pytest.approx(100 * math.exp(1 - 7 / 6))


def test_mteval_lowers_ascii_only_and_smooths_by_halves():
    assert mteval(["A B C D"], [["a b c d"]], lowercase=True)["score"] == pytest.approx(100.0)
    assert mteval(["Ä b c d e"], [["ä b c d e"]], lowercase=True)["score"] < 100
    # matches 4/5, 2/4, 0/3 and 0/2: the missing ones count 1/2 and 1/4
    assert mteval(["a b x d e"], [["a b c d e"]])["score"] == pytest.approx(100 * (4 / 5 * 2 / 4 * 0.5 / 3 * 0.25 / 2) ** 0.25)


@pytest.mark.parametrize("metric", ["sacrebleu", "multi-bleu", "mteval"])
def test_empty_outputs_score_zero(metric):
    spec = ScoreSpec(metric=metric)
    for hypotheses, references in ((["", ""], REFERENCES), ([], [[]]), ([""], [[""]])):
        result = score(hypotheses, hypotheses, Prepared(*references), "test", spec)
        assert result["bleu"] == 0.0 and result["signature"]
        json.dumps(result, allow_nan=False)


def test_a_wrong_count_is_the_users_error():
    with pytest.raises(UserError, match="test set test: 1 hypotheses but 2 lines in reference stream 0"):
        score(["a"], ["a"], Prepared(*REFERENCES), "test", ScoreSpec())
    with pytest.raises(UserError, match="no reference stream"):
        score(["a"], ["a"], Prepared(), "test", ScoreSpec())
