"""Connections that weigh the layers below by learned scalars: each against its equation, its start and its size."""

import pytest
import torch

from models.transformer import build
from tests.unit.models.model_cases import NO_DROPOUT, VOCAB, batch, config
from tests.unit.models.residual_cases import hidden


def model_of(norm: str = "pre", layers: int = 6, shift: float = 0.0, **kind):
    """Its connections' parameters drawn away from their start by N(0, `shift`)."""
    sides = {"encoder": {"num_layers": layers, "connection": kind}, "decoder": {"num_layers": 2}}
    model = build(config(norm, **sides) | NO_DROPOUT, VOCAB, VOCAB, 1)
    generator = torch.Generator().manual_seed(4)
    for p in model.encoder.connection.parameters():
        p.data += shift * torch.randn(p.shape, generator=generator)
    return model


@torch.no_grad()
def inputs_of(model) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """What each layer read and gave, h_0 first; what the stack's final norm read."""
    seen: list[torch.Tensor] = []
    model.encoder.aggregation.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()))
    history = model.eval()(*batch()).encoder
    return [t.clone() for t in history.inputs], [t.clone() for t in history.outputs], seen[0]


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        ({}, {l: list(range(l + 1)) for l in range(1, 7)}),
        ({"dilation": 2, "period": 2}, {2: [0, 2], 4: [0, 2, 4], 6: [0, 2, 4, 6]}),
        ({"dilation": 3}, {3: [0, 3], 4: [1, 4], 5: [2, 5], 6: [0, 3, 6]}),
        ({"dilation": 2, "period": 2, "keeps": "units"}, {4: [0, 4], 6: [2, 6]}),
        ({"dilation": 1, "period": 3, "keeps": "units"}, {3: [0, 3], 6: [0, 3, 6]}),
        ({"where": "top"}, {6: list(range(7))}),
    ],
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_dwa_sums_outputs_of_layers(norm, options, sources):
    model = model_of(norm, shift=0.3, kind="dwa", **options)
    inputs, outputs, top = inputs_of(model)
    flat = iter(model.encoder.connection.weight.tolist())  # by layer and source
    weights = {l: {j: next(flat) for j in js} for l, js in sources.items()}
    assert next(flat, None) is None
    for l in range(7):
        want = sum(w * outputs[j] for j, w in weights[l].items()) if l in weights else outputs[l]
        torch.testing.assert_close(top if l == 6 else inputs[l + 1], want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("reader", [{"encoder": {"aggregation": {"kind": "linear"}}}, {"bridge": {"kind": "transparent"}}])
def test_hierarchical_builds_no_node_that_nothing_reads(reader):
    side = {"num_layers": 4, "connection": {"kind": "hierarchical"}}
    full, less = (build(config("pre", **(other | {"encoder": side | other.get("encoder", {})})), VOCAB, VOCAB, 1) for other in ({}, reader))
    assert (len(full.encoder.connection.nodes), len(less.encoder.connection.nodes)) == (2, 1)
    less(*batch()).hidden.sum().backward()
    theirs = dict(full.named_parameters())
    assert all(torch.equal(p, theirs.get(name, p)) for name, p in less.named_parameters())
    assert all(p.grad is not None for p in less.encoder.parameters())


@pytest.mark.parametrize("options", [{}, {"normed": True}, {"backout": True}])
def test_embeddings_skip_to_every_layer(options):
    model = model_of(shift=0.3, kind="embedding_skip", **options)
    inputs, outputs, top = inputs_of(model)
    h_0, connection = outputs[0], model.encoder.connection
    if "normed" in options:
        h_0 = h_0 / (h_0.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(inputs[1], h_0, atol=1e-5, rtol=1e-4)
    for l in range(2, 7):
        a, b = connection.weight[l - 2]
        torch.testing.assert_close(inputs[l], a * outputs[l - 1] + b * h_0, atol=1e-5, rtol=1e-4)
    want = outputs[6] - connection.backout.weight * outputs[4] if "backout" in options else outputs[6]
    torch.testing.assert_close(top, want, atol=1e-5, rtol=1e-4)


def test_backout_takes_a_lower_layer_out_of_the_output():
    inputs, outputs, top = inputs_of(model_of(kind="backout"))
    assert all(torch.equal(inputs[l], outputs[l - 1]) for l in range(1, 7))
    torch.testing.assert_close(top, outputs[6] - 0.5 * outputs[4])


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", [{"kind": "dwa"}, {"kind": "dwa", "dilation": 2}, {"kind": "embedding_skip"}])
@torch.no_grad()
def test_they_start_as_the_plain_network(norm, kind):
    want = hidden(model_of(norm, kind="residual").eval())
    torch.testing.assert_close(hidden(model_of(norm, **kind).eval()), want, atol=1e-6, rtol=1e-6)
    assert (hidden(model_of(norm, shift=0.3, **kind).eval()) - want).abs().max() > 1e-3
