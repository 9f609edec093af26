"""Components whose result lower precision would change: decoding in it is refused, training in it warned of; keys stay what they are."""

import re

import pytest
import torch

from models.cache import Cache
from models.inference import prepared
from models.transformer import build
from orchestrator.ledger.keys import keys_of
from orchestrator.ledger.results import Ledger
from orchestrator.specs import check
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import plan
from tests.unit.conftest import refused

DENSE = {"kind": "dense"}
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


def off(connection, layers):
    """How far bf16 decoding is from fp32, as log-probability, at most."""
    sides = {side: {"num_layers": layers, "connection": connection} for side in ("encoder", "decoder")}
    model = build({"d_model": 32, "d_ff": 64, "num_heads": 2, "norm": "post"} | sides, 60, 60, 3).eval()
    g = torch.Generator().manual_seed(1)
    src, tgt = torch.randint(4, 60, (3, 8), generator=g), torch.randint(4, 60, (3, 8), generator=g)
    found = []
    for kind in ("fp32", "bf16"):
        with torch.no_grad(), prepared(model, kind):
            encoded, cache = model.encode(src), Cache()
            hidden = torch.cat([model.decode(tgt[:, t : t + 1], encoded, cache) for t in range(8)], dim=1)
            found.append(model.logits(hidden).log_softmax(-1))
    return float((found[0] - found[1]).abs().max())


def test_the_rule_holds_where_the_error_is():
    """The state of Eq. 4 as written makes of bf16's rounding whole numbers; what the rule lets pass stays near the plain model's error."""
    assert off(DENSE, 6) > 1.0
    assert max(off(DENSE, 2), off({"kind": "dense", "final_norm": True}, 6), off({"kind": "residual"}, 6)) < 0.1
