"""Parts of the workers that need no toolkit: batches, rounds, the converter's names and numbers, the text as files."""

import ctranslate2_model
import flops
import numpy as np
import pytest
import torch
from sizes import SIZES

from models.embedding import sinusoids
from models.transformer import build
from orchestrator.cost.work import Tokens

TINY = SIZES["tiny"]


def test_flops_by_hand() -> None:
    found = flops.transformer(d_model=2, d_ff=3, encoder_layers=1, decoder_layers=1, vocab=5).forward(Tokens.of([4], [3]))
    maps, ffn = 4 * 2 * 2 * 2, 2 * 2 * 2 * 3
    encoder = 4 * (maps + ffn) + 2 * (2 * 4 * 4 * 2)
    decoder = 3 * (maps + ffn) + 2 * 2 * 2 * (1 + 2 + 3) + 2 * (2 * 2 * 2) * (3 + 4) + 2 * (2 * 3 * 4 * 2)
    assert found == encoder + decoder + 3 * 2 * 2 * 5


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_converter_places_every_weight(norm: str) -> None:
    config = TINY.model(norm=norm)
    ours = {name: p.detach().numpy() for name, p in build(config, TINY.vocab, TINY.vocab).named_parameters()}
    found = ctranslate2_model.variables(ours, config)
    shared = ours["src_embedding.words.weight"]
    own = [name for name in found if "position" not in name and found[name].shape != shared.shape]
    assert sum(found[name].size for name in own) + shared.size == sum(w.size for w in ours.values())
    attention = "decoder.layers.1.cross_attention.attention"
    expected = np.concatenate([ours[f"{attention}.key.weight"], ours[f"{attention}.value.weight"]])
    assert np.array_equal(found["decoder/layer_1/attention/linear_1/weight"], expected)
    assert np.array_equal(found["decoder/projection/weight"], shared)
    assert ("encoder/layer_norm/gamma" in found) == (norm == "pre")
    np.testing.assert_allclose(found["encoder/position_encodings/encodings"][:90], sinusoids(0, 90, 64, torch.device("cpu")), atol=1e-5)
