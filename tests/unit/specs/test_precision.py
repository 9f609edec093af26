"""Components whose result lower precision would change: decoding in it is refused, training in it warned of; keys stay what they are."""

import re

import pytest

from orchestrator.ledger.keys import keys_of
from orchestrator.ledger.results import Ledger
from orchestrator.specs import check
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import plan
from tests.unit.conftest import refused

ROWS = """\
  written: {model: {norm: post, encoder: {num_layers: 6, connection: {kind: dense}}}}
  shallow: {model: {norm: post, encoder: {num_layers: 2, connection: {kind: dense}}}}
  outputs: {model: {norm: post, encoder: {num_layers: 6, connection: {kind: dense, mode: layer_outputs}}}}
  normed: {model: {norm: post, encoder: {num_layers: 6, connection: {kind: dense, final_norm: true}}}}
  pre: {model: {norm: pre, encoder: {num_layers: 6, connection: {kind: dense}}}}
  plain: {model: {norm: post, encoder: {num_layers: 6}}}
"""
FINE = ("shallow", "outputs", "normed", "pre", "plain")


@pytest.mark.parametrize("found", ["bf16", "int8"])
def test_decoding_in_fewer_bits_is_refused_where_they_change_the_result(spec, found):
    path = spec(ROWS)
    for row in FINE:
        assert resolve(f"{path}#{row}", sets=[f"decode.precision={found}"])[0].spec.decode.precision == found
    (line,) = refused(resolve, f"{path}#written", sets=[f"decode.precision={found}"])
    assert re.search(rf"decode\.precision: found {found}; expected fp32: encoder\.connection dense: its state grows as 2\^layers", line)
    assert resolve(f"{path}#written")[0].spec.decode.precision == "fp32"


def test_training_in_bf16_is_warned_of_and_keeps_its_keys(spec, tmp_path, monkeypatch):
    path = spec(ROWS)
    rows = resolve(str(path), sets=["train.precision=bf16"])
    (line,) = [note for note in plan(rows, [1], ledger=Ledger(tmp_path / "results")).notes if note.startswith("warning: ")]
    assert line.startswith("warning: demo/small/written: train.precision bf16: encoder.connection dense: its state grows")
    assert not [note for note in plan(resolve(str(path)), [1], ledger=Ledger(tmp_path / "results")).notes if "warning" in note]
    before = [keys_of(row.spec, None, None) for row in rows]
    monkeypatch.setattr(check, "needs_fp32", lambda model: None)
    again = resolve(str(path), sets=["train.precision=bf16"])
    assert [keys_of(row.spec, None, None) for row in again] == before
    assert not [note for note in plan(again, [1], ledger=Ledger(tmp_path / "results")).notes if "warning" in note]
