"""benchmarks/variants.py: it finds every reported speed, keeps the variants as they are, and says what it measured."""

import importlib
from operator import attrgetter

import pytest
import variants
from overheads_probe import PHASES

from models.registry import REGISTRIES
from orchestrator.analysis.base import Subject
from orchestrator.ledger.keys import Keys
from orchestrator.specs.rows import resolve


@pytest.mark.parametrize("address", ["mlrf2018/text", pytest.param("dou2018/table1", marks=pytest.mark.slow)])
def test_at_the_benchmarks_size_a_row_keeps_its_components(address: str) -> None:
    size = variants.SIZES["tiny"]
    for subject in variants.reporting(address):
        published, scaled = subject.row.spec.model, variants.at_size(subject.row, size, "fp32", 500).spec.model
        assert (scaled.d_model, scaled.num_heads) == (size.d_model, size.num_heads)
        for side in ("encoder", "decoder"):
            own, other = getattr(published, side), getattr(scaled, side)
            assert own.num_layers == other.num_layers
            for slot in set(REGISTRIES) & set(own.model_fields_set):
                one, two = (getattr(part, slot) or {} for part in (own, other))
                assert {k: v for k, v in one.items() if k[:2] != "d_"} == {k: v for k, v in two.items() if k[:2] != "d_"}
        assert [r["kind"] for r in published.regularizers] == [r["kind"] for r in scaled.regularizers]


def test_a_row_with_muon_and_a_tuned_length_penalty_is_measured(spec) -> None:
    (row,) = resolve(spec("  muon: {optim: {kind: muon}, decode: {length_penalty: {alpha: tuned, candidates: [0.6, 1.0]}}}\n"))
    args = variants.arguments(["--sentences", "2", "--steps", "1", "--batch-tokens", "100"])
    (measured,), _ = variants.cases([Subject(row, Keys(None, None, None), "")], variants.SIZES["tiny"], args)
    for name in ("train", "beam"):
        measured.count(name, 2)
    assert measured.kept > 0 and all(measured.flops.values())


@pytest.mark.parametrize("module", [name for name in PHASES if name.startswith("orchestrator.")])
def test_every_phase_of_overheads_has_its_function(module):
    for path in PHASES[module]:
        attrgetter(path)(importlib.import_module(module))
