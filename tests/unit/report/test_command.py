"""`nmt-ablate table` as a command: options, folders, bad input."""

from collections.abc import Callable
from pathlib import Path

import pytest

TABLE = """\
source: {{paper: demo, table: {name}}}
data: {{corpus: toy-smoke, subword: {{kind: word, size: 200}}, vocab: {{src: 200, tgt: 200}}}}
model: {{d_model: 16, d_ff: 32, num_heads: 2, encoder: {{num_layers: 2}}, decoder: {{num_layers: 2}}}}
train: {{max_steps: 4, validate_every: 2, checkpoint_every: 2}}
rows:
  base: {{expect: {{params: 9.9M, bleu: 27.64}}}}
  wide: {{model: {{d_ff: 48}}, expect: {{params_added: +0.0M, bleu: 28.1}}}}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def table(tmp_path: Path, cli: Run) -> Run:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(TABLE.format(name=name), encoding="utf-8")

    def run(target: str, *arguments: str) -> tuple[int, str, str]:
        return cli("table", tmp_path / target, *arguments, "--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")

    return run


def test_nothing_was_run(table: Run, tmp_path: Path) -> None:
    code, out, _ = table("one.yaml")
    assert code == 0 and out.count("not run") == 2 and "**demo/one**" in out
    assert "base: params reported as 9.9M, counted" in out and "wide: params" not in out
    assert not (tmp_path / "results").exists() and not (tmp_path / "cache").exists(), "looking changes nothing"


def test_a_scaled_table_is_not_held_to_the_papers_counts(table: Run) -> None:
    out = table("one.yaml", "--set", "model.d_ff=64")[1]
    assert "counted" not in out and "--set model.d\\_ff=64; not comparable" in out


def test_bad_baselines(table: Run) -> None:
    code, _, err = table("one.yaml", "--baseline", "bse")
    assert code == 2 and err.count("\n") == 1 and "--baseline bse" in err and "base" in err
    assert table("one.yaml", "--baseline", "demo/one/wide")[0] == table("one.yaml", "--baseline", "wide")[0] == 0
    code, _, err = table("one.yaml", "--format", "pdf")
    assert code == 2 and "--format pdf" in err
