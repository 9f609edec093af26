"""What a parameter starts as is declared: by the rule of its class, or by the `initialise` of its module."""

import math

import pytest
import torch
from torch import nn

from models.initialise import NoInitialValueError, initialise, starts_as, stream_seed
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, config


class Mixed(Connection):
    """x_l = h_{l-1} M; its constructor means M to start as the identity."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.mix = nn.Parameter(torch.eye(site.d_model))

    def forward(self, layer: int, history: History, flow: Flow) -> torch.Tensor:
        return history.kept[layer - 1] @ self.mix


class MixedAndDeclared(Mixed):
    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.mix = starts_as(torch.eye(site.d_model))


class MoreThanLinear(nn.Linear):
    """A map whose class has a rule, with a parameter that the rule does not know."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.temperature = nn.Parameter(torch.ones(2))


@pytest.fixture
def registered(monkeypatch):
    CONNECTIONS.names()
    monkeypatch.setattr(CONNECTIONS, "_classes", dict(CONNECTIONS._classes))
    CONNECTIONS.register("undeclared-mix")(Mixed)
    CONNECTIONS.register("declared-mix")(MixedAndDeclared)


ROWS = """\
  sound: {}
  zeros: {model: {encoder: {connection: {kind: undeclared-mix}}}}
  declared: {model: {encoder: {connection: {kind: declared-mix}}}}
"""


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_parameter_without_an_initial_value_is_refused_before_anything_trains(registered, cli, spec, tmp_path, command):
    places = [*("--results", tmp_path / "results"), *("--cache-dir", tmp_path / "cache")]
    code, _, err = cli(command, spec(ROWS), *(["--no-tracking"] if command == "run" else []), *places)
    assert code == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "connection undeclared-mix: parameter mix: found no declared initial value" in line
    assert "a method initialise(self, name, generator) of Mixed" in line
    if command == "run":
        assert line.startswith("error: demo/small/zeros: ")
    assert list((tmp_path / "results").glob("*/journal.jsonl")) == []  # nor did the row before it


def test_what_is_declared_is_what_it_starts_as(registered):
    model = build(config("pre", encoder={"num_layers": 2, "connection": {"kind": "declared-mix"}}), VOCAB, VOCAB, 1)
    assert torch.equal(model.encoder.connection.mix, torch.eye(16))
    with pytest.raises(NoInitialValueError, match=r"^parameter encoder\.connection\.mix: "):
        build(config("pre", encoder={"num_layers": 2, "connection": {"kind": "undeclared-mix"}}), VOCAB, VOCAB, 1)


@pytest.mark.parametrize("module", [MoreThanLinear(), nn.Conv1d(2, 2, 3), nn.GRU(2, 2)], ids=lambda m: type(m).__name__)
def test_a_class_answers_only_for_the_parameters_that_its_rule_names(module):
    before = [p.detach().clone() for p in module.parameters()]
    with pytest.raises(NoInitialValueError, match=type(module).__name__):
        initialise(module, "xavier", 1)
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))  # nothing was drawn over


def drawn(name, shape):
    """The stream of a parameter, as `initialise` names it."""
    return torch.Generator().manual_seed(stream_seed(1, "init", name)), torch.empty(shape)


def test_each_rule_is_its_formula():
    """Embeddings N(0, d^-0.5), or N(0, 0.1) with convs2s; maps U(+-sqrt(6 / (in + out))), or U(+-1/sqrt(in)) with fan-in."""
    parts = nn.ModuleDict({"words": nn.Embedding(400, 64), "map": nn.Linear(30, 60), "norm": nn.LayerNorm(5)})
    parts["map"].initial_gain = 0.5  # of DeepNorm, for instance
    for scheme in ("xavier", "fan-in", "convs2s"):
        for p in parts.parameters():
            nn.init.constant_(p, 7.0)
        initialise(parts, scheme, 1)
        generator, value = drawn("words.weight", (400, 64))
        assert torch.equal(
            parts["words"].weight, value.normal_(0.0, 0.1 if scheme == "convs2s" else 1 / math.sqrt(64), generator=generator)
        )
        generator, value = drawn("map.weight", (60, 30))
        if scheme == "convs2s":
            value.normal_(0.0, math.sqrt(1 / 30), generator=generator)
        else:
            bound = math.sqrt(6 / 90) if scheme == "xavier" else 1 / math.sqrt(30)
            value.uniform_(-bound, bound, generator=generator)
        assert torch.allclose(parts["map"].weight, 0.5 * value, rtol=1e-6), scheme
        generator, bias = drawn("map.bias", (60,))
        bias = bias.uniform_(-1 / math.sqrt(30), 1 / math.sqrt(30), generator=generator) if scheme == "fan-in" else bias.zero_()
        assert torch.allclose(parts["map"].bias, bias, rtol=1e-6)
        assert (parts["norm"].weight == 1).all() and (parts["norm"].bias == 0).all()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_zero_residual_starts_every_sublayer_as_the_identity(norm):
    """The encoder's layers add nothing: pre-norm returns their input, post-norm its norm; all other values stay."""
    settings = {"d_model": 8, "d_ff": 16, "num_heads": 2, "norm": norm, "encoder": {"num_layers": 3}, "decoder": {"num_layers": 1}}
    zero, xavier = (build(settings | {"zero_residual": zero}, 11, 11) for zero in (True, False))
    theirs = dict(xavier.named_parameters())
    zeros = {name for name, value in zero.named_parameters() if not torch.equal(value, theirs[name])}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in zeros} == {"output", "outer"} and len(zeros) == 3 * 2 + 3
    assert not any(dict(zero.named_parameters())[name].any() for name in zeros)
    x = torch.randn(2, 5, 8)
    for layer in zero.encoder.layers:
        out = layer(x, (), None, (), Flow())[0]
        torch.testing.assert_close(out, x if norm == "pre" else torch.nn.functional.layer_norm(x, (8,)), atol=1e-4, rtol=1e-3)
