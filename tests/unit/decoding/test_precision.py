"""The `precision` of decoding, and the largest values of long rows."""

from unittest.mock import Mock

import pytest
import torch

import orchestrator.decoding.translate
from models.inference import PrecisionError
from models.transformer import build
from orchestrator.decoding.candidates import exact_top_k
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.specs.schema import DecodeSpec, ModelSpec


def sharp_model():
    model = build(ModelSpec(d_model=32, d_ff=64, num_heads=2, norm="pre").model_dump(), 24, 24, 3).eval()
    model.output.weight.data.mul_(6.0)
    return model


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_lower_precision_scores_about_the_same(precision):
    model, ids = sharp_model(), [[4, 5, 6], [7], [8, 9, 10, 11, 4]]
    full, low = (decode_corpus(model, ids, DecodeSpec(beam_size=4, max_extra=3, precision=p)) for p in ("fp32", precision))
    assert [h.score for h in low] != [h.score for h in full], "it makes a difference"
    assert [h.score for h in low] == pytest.approx([h.score for h in full], rel=0.15)  # the logits are sharpened


def test_a_precision_that_is_not_there_is_one_line(monkeypatch):
    refuse = Mock(side_effect=PrecisionError("precision int8: found a toaster; expected fp32"))
    monkeypatch.setattr(orchestrator.decoding.translate, "prepared", refuse)
    with pytest.raises(UserError, match=r"^decode: precision int8: found a toaster"):
        decode_corpus(sharp_model(), [[4]], DecodeSpec(precision="int8"))


@pytest.mark.parametrize("columns", [5, 40, 999, 3000])
@pytest.mark.parametrize("levels", [2, 7, 1000])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_best_of_rows_is_a_stable_sort(columns, levels, count):
    """Few levels: ties within blocks, over blocks and over the end."""
    values = torch.randint(0, levels, (20, columns), generator=torch.Generator().manual_seed(levels)).float()
    values[:, 0] = values[:, 2] = values[3, 4:] = float("-inf")
    kept = min(count + 2, columns)
    value, column = (t[:, :kept] for t in values.sort(dim=1, descending=True, stable=True))
    real = value > float("-inf")
    exact_value, exact_column, tied = exact_top_k(values, count, exact=True)
    assert torch.equal(exact_value, value) and torch.equal(exact_column[real], column[real]) and not tied
    quick_value, quick_column, tied = exact_top_k(values, count, exact=False)
    assert torch.equal(quick_value, value)
    if not tied:
        assert torch.equal(quick_column[:, :count][real[:, :count]], column[:, :count][real[:, :count]])
