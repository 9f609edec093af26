"""`nmt-ablate table` as a command: options, bad input, and that looking changes nothing."""

import pytest

ROWS = "  base: {expect: {params: 9.9M, bleu: 27.64}}\n  wide: {model: {d_ff: 48}, expect: {params_added: +0.0M, bleu: 28.1}}\n"


@pytest.fixture
def table(spec, tmp_path, cli):
    return lambda *arguments: cli("table", spec(ROWS), *arguments, "--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")


def test_nothing_was_run(table, tmp_path) -> None:
    code, out, _ = table()
    assert code == 0 and out.count("not run") == 2 and "**demo/small**" in out
    assert "base: params reported as 9.9M, counted" in out and "wide: params" not in out
    out = table("--set", "model.d_ff=64")[1]
    assert "counted" not in out and "--set model.d\\_ff=64; not comparable" in out, "scaled, it is not held to the paper's counts"
    assert not (tmp_path / "results").exists() and not (tmp_path / "cache").exists()
    assert table("--baseline", "demo/small/wide")[0] == table("--baseline", "wide")[0] == 0
