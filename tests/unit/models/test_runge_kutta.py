"""Layers that run several times in a pass: each against its equation, its start, its size, and what it caches."""

from typing import Any

import pytest
import torch

from models.site import Flow
from models.transformer import build
from tests.unit.models.model_cases import NO_DROPOUT, VOCAB, batch, config
from tests.unit.models.residual_cases import hidden


def model_of(layers: int = 3, connection: str = "residual", decoder: dict[str, Any] | None = None, **layer):
    encoder = {"num_layers": layers, "layer": layer, "connection": {"kind": connection}}
    return build(config("pre", encoder=encoder, decoder={"num_layers": 2} | (decoder or {})) | NO_DROPOUT, VOCAB, VOCAB, 1)


@pytest.mark.parametrize("function", ["branch", "layer"])
@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("gate", None), ("fixed", (0.5, 0.5)), ("learned", (1.0, 1.0)), ("ema", (0.25, 0.5)),
        ("fixed", (1 / 6, 1 / 3, 1 / 3, 1 / 6)), ("ema", (1 / 16, 1 / 8, 1 / 4, 1 / 2)),
    ],
)  # fmt: skip
@torch.no_grad()
def test_two_and_four_evaluations(kind, weights, function):
    order = len(weights or (1, 2))
    layer = model_of(kind="runge_kutta", order=order, coefficients=kind, function=function).encoder.layers[1].eval()
    x, flow = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(3)), Flow()

    def f(h):
        return layer.once(h, (), None, (), flow)[0] - (0.0 if function == "layer" else h)

    found = [f(x)]
    for share in (1.0,) if order == 2 else (0.5, 0.5, 1.0):
        found.append(f(x + share * found[-1]))
    if weights is None:
        g = torch.sigmoid(torch.cat(found, -1) @ layer.own.weight[0] + layer.own.bias)[..., None]
        weights = (g, 1 - g)
    want = x + sum(w * each for w, each in zip(weights, found, strict=True))
    torch.testing.assert_close(layer(x, (), None, (), flow)[0], want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_chain_is_a_deeper_stack():
    chain, deep = model_of(kind="runge_kutta", coefficients="chain").eval(), model_of(6, kind="transformer").eval()
    for l, layer in enumerate(chain.encoder.layers):
        for twin in deep.encoder.layers[2 * l : 2 * l + 2]:
            twin.load_state_dict(layer.state_dict())
    torch.testing.assert_close(hidden(chain), hidden(deep), atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_the_corrector_runs_each_layer_on_its_prediction():
    model = model_of(connection="corrector", kind="runge_kutta", coefficients="ema").eval()
    connection = model.encoder.connection
    generator = torch.Generator().manual_seed(5)
    for p in (connection.predicted, connection.weight):
        p.add_(0.1 * torch.randn(p.shape, generator=generator))
    mask = batch()[0] != 0
    flow = Flow(mask=mask, bias=torch.zeros(mask.shape).masked_fill(~mask, -1e9)[:, None, None])
    h_0 = model.src_embedding(batch()[0])
    y, x = [h_0], h_0
    for l, layer in enumerate(model.encoder.layers, start=1):
        p = connection.prediction_norms[l - 1](layer(x, (), None, (), flow)[0])
        read = sum(connection.predicted[l, j] * s for j, s in enumerate((*y, p)))
        y.append(connection.norms[l - 1](layer.once(read, (), None, (), flow)[0]))
        x = sum(connection.weight[l, j] * s for j, s in enumerate(y))
    torch.testing.assert_close(model.encoder(h_0, flow)[0], model.encoder.aggregation.norm(x), atol=1e-5, rtol=1e-4)
