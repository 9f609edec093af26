"""benchmarks/variants.py: it finds every reported speed, keeps the variants as they are, and says what it measured."""

import json
from typing import Any

import pytest
import variants
from rich.console import Console

from models.registry import REGISTRIES


@pytest.mark.parametrize("address", ["dou2018/table1", "mlrf2018/text"])
def test_at_the_benchmarks_size_a_row_keeps_its_components(address: str) -> None:
    size = variants.SIZES["tiny"]
    for subject in variants.reporting(address):
        published, scaled = subject.row.spec.model, variants.at_size(subject.row, size, "fp32", 500).spec.model
        assert (scaled.d_model, scaled.num_heads) == (size.d_model, size.num_heads)
        for side in ("encoder", "decoder"):
            own, other = getattr(published, side), getattr(scaled, side)
            assert own.num_layers == other.num_layers
            for slot in set(REGISTRIES) & set(own.model_fields_set):
                assert _without_widths(getattr(own, slot)) == _without_widths(getattr(other, slot))
        assert [r["kind"] for r in published.regularizers] == [r["kind"] for r in scaled.regularizers]


def _without_widths(component: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if component is None else {k: v for k, v in component.items() if not k.startswith("d_")}


@pytest.mark.slow
def test_a_measurement_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    short = "--rounds 2 --steps 1 --batch-tokens 60 --sentences 2 --beam 2"
    args = variants.arguments(f"--size tiny --targets dou2018/table1 --only row1 row5 {short}".split())
    result = variants.measure(args, Console(quiet=True))
    json.dumps(result, allow_nan=False)
    (table,) = result["tables"]
    base, row = table["rows"]
    assert (base["row"], row["row"]) == ("dou2018/table1/row1", "dou2018/table1/row5")
    assert base["train"]["by_flops"] == base["beam"]["by_flops"] == base["train"]["ratio"] == 1.0
    for name in ("train", "beam", "greedy"):
        assert row[name]["per_second"] > 0 and row[name]["gflop"] > base[name]["gflop"]
        low, high = row[name]["spread"]
        assert low <= row[name]["ratio"] + 1e-3 and row[name]["ratio"] <= high + 1e-3
    assert row["train"]["paper"] == pytest.approx(1.46 / 1.82, abs=1e-4) and row["beam"]["paper"] == pytest.approx(1.25 / 1.33, abs=1e-4)
    assert isinstance(row["beam"]["within"], bool)
    assert base["kept"] == 1.0 and row["kept"] == pytest.approx(row["kept_bytes"] / base["kept_bytes"], abs=1e-3) and row["kept"] > 1.0
    variants.show(result)
    assert "hierarchical aggregation" in capsys.readouterr().out
