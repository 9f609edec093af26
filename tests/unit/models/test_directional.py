"""Directional masks against a literal transcription, and where they are refused."""

from __future__ import annotations

import math

import pytest
import torch

from models import build
from models.paths import PATHS
from models.site import Flow
from models.transformer import padding_bias
from orchestrator.specs.components import check_components
from tests.unit.models.model_cases import VOCAB, batch, config


def directional(masks="heads", **changes):
    return config("post", encoder={"num_layers": 4, "self_attention": {"kind": "directional", "masks": masks}}, **changes)


def literal(mha, x, forward):
    """One sentence [S, D]. forward: for each head, j <= i, else j >= i."""
    query, key, value = (x @ m.weight.T + m.bias for m in (mha.query, mha.key, mha.value))
    rows = []
    for i in range(len(x)):
        heads = []
        for h in range(mha.num_heads):
            part = slice(h * mha.d_head, (h + 1) * mha.d_head)
            seen = range(i + 1) if forward[h] else range(i, len(x))
            e = torch.exp(torch.stack([query[i, part] @ key[j, part] / math.sqrt(mha.d_head) for j in seen]))
            heads.append(sum(w * value[j, part] for w, j in zip(e / e.sum(), seen, strict=True)))
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ mha.output.weight.T + mha.output.bias


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("masks", "layer", "ways"), [("heads", 0, [True, True, False, False]), ("layers", 2, [True] * 4), ("layers", 3, [False] * 4)]
)
def test_is_the_equation(masks, layer, ways, fast, monkeypatch):
    monkeypatch.setattr(PATHS, "attention", fast)
    model = build(directional(masks, num_heads=4), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    mha = model.encoder.layers[layer].self_attention.attention
    x = torch.randn(4, 7, 16, generator=torch.Generator().manual_seed(1))
    lengths = [7, 4, 1, 0]
    mask = torch.arange(7)[None] < torch.tensor(lengths)[:, None]
    got = mha(x, x, Flow(mask=mask, bias=padding_bias(mask)))
    assert torch.isfinite(got).all(), "rows of padding too, and a sentence without words"
    for b, length in enumerate(lengths[:3]):
        torch.testing.assert_close(got[b, :length], literal(mha, x[b, :length], ways), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("masks", ["heads", "layers"])
def test_the_trace_shows_the_masks(masks):
    model = build(directional(masks), VOCAB, VOCAB, 1).eval()
    trace = []
    with torch.no_grad():
        model.encode(batch()[0], trace=trace)
    maps = [weights for _, weights in trace]
    assert len(maps) == 4 and all(w.shape[-2:] == (7, 7) for w in maps)
    for layer, weights in enumerate(maps, start=1):
        for head in range(2):
            seen = weights[1:, head].amax(0)
            ahead, back = seen.triu(1).max(), seen.tril(-1).max()
            forward = head == 0 if masks == "heads" else layer % 2 == 1
            assert (ahead == 0 and back > 0) if forward else (back == 0 and ahead > 0)


def test_is_refused_where_it_cannot_stand():
    def problems(model):
        return [problem.message for problem in check_components(config("post") | model)[1]]

    one = {"kind": "directional"}
    assert problems({"encoder": {"num_layers": 4, "self_attention": one}}) == []
    (line,) = problems({"decoder": {"num_layers": 4, "self_attention": one}})
    assert "in the decoder" in line and "\n" not in line
    odd = {"encoder": {"num_layers": 4, "self_attention": one}, "num_heads": 1}
    (line,) = problems(odd)
    assert line == "masks heads gives each direction half of the heads; num_heads is 1, expected an even number"
    assert problems({"encoder": {"num_layers": 4, "self_attention": one | {"masks": "layers"}}, "num_heads": 1}) == []
