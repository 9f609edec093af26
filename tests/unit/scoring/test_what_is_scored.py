"""Which text each figure is of: the detokenised output or its tokens, against references that were cased and tokenised alike."""

import pytest

from orchestrator.scoring.bleu import mteval, multi_bleu
from orchestrator.scoring.scores import sacre_bleu, score
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

TEXT = ["The old house isn't red , it is well-known .", "A dog sees the tree in the new house ."]
TOKENS = ["the old house is n't red , it is well @-@ known now .", "a dog sees the tree in the new house , too ."]
REFERENCE = ["The old House isn't red, it is well-known.", "A dog sees the tree in the old house."]


class Data(Text):
    """References as they stand; tokens are lower-cased, with a mark at the end."""

    def tokenise(self, lines, side):
        assert side == "tgt"
        return [line.lower().replace(",", " ,").replace(".", " .") for line in lines]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_each_figure_is_of_its_own_text(lowercase, split):
    found = {}
    for metric in ("sacrebleu", "multi-bleu", "mteval"):
        spec = ScoreSpec(metric=metric, lowercase=lowercase, split_compounds=split)
        found[metric] = score(TEXT, TOKENS, Data(REFERENCE), "test", spec)
    tokenised = multi_bleu(TOKENS, [Data(REFERENCE).tokenise(REFERENCE, "tgt")], lowercase=lowercase, split_compounds=split)
    expected = {
        "sacrebleu": sacre_bleu(TEXT, [REFERENCE], lowercase=lowercase)["score"],
        "multi-bleu": tokenised["score"],
        "mteval": mteval(TEXT, [REFERENCE], lowercase=lowercase)["score"],
    }
    assert len({round(value, 6) for name, value in expected.items() if name != "mteval"}) == 2, "the figures tell the texts apart"
    for metric, record in found.items():
        assert record["bleu"] == pytest.approx(expected[metric]) and record["metric"] == metric
        assert record["tokenised"]["score"] == pytest.approx(tokenised["score"])
        assert record["sentences"] == 2
