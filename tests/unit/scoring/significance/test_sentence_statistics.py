"""Corpus scores from sentence statistics equal those of the libraries, and survive the way through a record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import UserError
from orchestrator.ledger.statistics import pack, unpack
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import checked, of_translation, packed, score_of, unpacked
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

LINES = st.lists(st.text(alphabet="abC -,.'É", max_size=25), min_size=6, max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["sacrebleu", "multi-bleu", "mteval", "rouge"])
@pytest.mark.parametrize("options", [{}, {"lowercase": True, "split_compounds": True}])
@settings(max_examples=30, deadline=None)
@given(hypotheses=LINES, one=LINES, two=LINES)
def test_scores_equal_the_librarys(metric: str, options: dict[str, bool], hypotheses: list[str], one: list[str], two: list[str]) -> None:
    spec, corpus = ScoreSpec.model_validate({"metric": metric, **options}), Text(one, two)
    whole = score(hypotheses, hypotheses, corpus, "test", spec)
    found = unpacked({"statistics": packed(of_translation(hypotheses, hypotheses, corpus, "test", spec))})
    main = "rougeL" if metric == "rouge" else "bleu"
    assert set(found) == {main, "chrf"}
    tolerance = 1e-4 if metric == "rouge" else 1e-9  # ROUGE's are kept in single precision
    assert float(score_of(main, spec)(found[main].sum(0))) == pytest.approx(whole[main], abs=tolerance)
    assert float(score_of("chrf", spec)(found["chrf"].sum(0))) == pytest.approx(whole["chrf"]["score"], abs=1e-9)


def test_nll_is_the_mean_over_tokens() -> None:
    spec = ScoreSpec()
    found = of_translation(["a", "b"], ["a", "b"], Text(["a", "b"]), "test", spec, pack([[6.0, 2.0], [3.0, 1.0]]))
    assert float(score_of("nll", spec)(found["nll"].sum(0))) == 3.0


def test_damaged_statistics_are_a_line() -> None:
    good = pack(np.arange(20).reshape(2, 10))
    assert (unpack(good, 10) == np.arange(20).reshape(2, 10)).all() and unpacked(None) == {} and unpacked({"key": "a"}) == {}
    for bad in (good[4:], "<i4:" + good[8:], good[:-8], "<f8:" + good[4:], pack([1, 2, 3])):
        with pytest.raises(UserError, match="statistics are damaged"):
            unpacked({"key": "k" * 64, "statistics": {"bleu": bad}})


def test_a_record_whose_score_is_not_of_its_sentences_is_refused() -> None:
    statistics = {"bleu": np.arange(20).reshape(2, 10), "chrf": np.arange(36).reshape(2, 18)}
    spec = ScoreSpec()
    bleu, chrf = (float(score_of(name, spec)(values.sum(axis=0))) for name, values in statistics.items())
    record = {
        "key": "k" * 64,
        "score": spec.model_dump(exclude_none=True),
        "statistics": packed(statistics),
        "bleu": bleu,
        "chrf": {"score": chrf},
    }
    assert checked(record).keys() == statistics.keys() and checked(record | {"bleu": None}) and checked(None) == {}
    for edited, name in (({"bleu": bleu + 0.01}, "BLEU"), ({"chrf": {"score": chrf - 1}}, "chrF")):
        with pytest.raises(UserError, match=f"score k+: {name}: found .*; expected .*, from the statistics of its sentences"):
            checked(record | edited)
