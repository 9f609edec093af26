"""Matched controls on the command line: `--controls`, addresses, and a sweep that trains them."""

import json

import pytest

ROWS = "  base: {pinned: true}\n  wide: {model: {d_ff: 70}, init_from: base}\n"


@pytest.mark.slow
def test_a_sweep_trains_controls(cli, spec, tmp_path) -> None:
    """It prepares the corpus that decides on them; the table has them below their variant; the same work has the same keys."""
    head = spec().read_text(encoding="utf-8").replace(", vocab: {src: 200, tgt: 200}", "").replace("  base: {}\n", "")
    path, places = spec(ROWS, head=head), ("--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    code, out, err = cli("plan", path, "--controls", "params,flops", "--json", *places)
    assert code == 0 and len(json.loads(out)["rows"]) == 2
    assert "control base@params=wide left out: parameters need vocabulary sizes" in err and "control base@flops=wide left out" in err
    code, out, err = cli("sweep", path, "--controls", "params,flops", "--engine", "local", "--no-tracking", "--json", *places)
    assert code == 0, err
    done = [json.loads(line) for line in out.splitlines()]
    names = [f"demo/small/{name}" for name in ("base", "wide", "base@params=wide", "base@flops=wide")]
    assert {record["id"] for record in done} == {*names, f"{names[2]}@start"} and {record["status"] for record in done} == {"done"}
    of = {record["id"]: record for record in done}
    assert abs(of[names[2]]["params"] / of[names[1]]["params"] - 1) <= 0.005
    assert cli("sweep", path, "--engine", "local", "--no-tracking", *places)[2].count("nothing to do") == 1
    assert len(list((tmp_path / "r/sweeps").glob("demo-small*.json"))) == 4, "two sweeps, each with its lock"
    table = json.loads(cli("table", path, "--controls", "params,flops", "--format", "json", *places)[1])
    assert [row["id"] for row in table["rows"]] == names and {row["ours"]["status"] for row in table["rows"]} == {"done"}
    assert table["rows"][2]["label"] == "base, d_ff 70, continued: parameters of wide" and table["rows"][2]["reported"] == {}
    assert [row["id"] for row in json.loads(cli("table", path, "--format", "json", *places)[1])["rows"]] == names[:2]
    for name in ("base@params=wide", "base@flops=wide"):
        code, out, err = cli("run", f"{path}#{name}", "--no-tracking", *places)
        assert code == 0 and "nothing to do" in err, err
    shown = cli("show", f"{path}#base@flops=wide", "--cache-dir", tmp_path / "c")[1]
    (tmp_path / "shown.yaml").write_text(shown, encoding="utf-8")
    assert "nothing to do" in cli("run", tmp_path / "shown.yaml", "--no-tracking", *places)[2]
