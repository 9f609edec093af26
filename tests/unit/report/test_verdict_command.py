"""`nmt-ablate verdict` after a sweep of a file with claims: records, exit codes, a claim that was changed."""

import json

import pytest

TABLE = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 40, validate_every: 40, checkpoint_every: 40}
sweep: {seeds: 2}
claims:
  - {row: half, metric: nll, effect: 0.01}
rows:
  base: {label: base, pinned: true}
  half: {label: half of the updates, train: {max_steps: 8, validate_every: 8, checkpoint_every: 8}}
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_claims_are_judged_and_remembered(spec, tmp_path, cli) -> None:
    file = spec(text=TABLE)
    places = ("--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")
    code, _, err = cli("verdict", file, *places)
    assert code == 7 and "not run: no finished run of demo/small/half and demo/small/base" in err
    nothing = spec(text=TABLE.replace("row: half", "row: base"), name="nothing.yaml")
    assert "base, nll: not compared: the table compares this row with none; expected `against`" in cli("verdict", nothing, *places)[2]
    code, out, _ = cli("sweep", file, *places, "--no-tracking", "--engine", "local")
    assert code == 0 and "verdict" in out and "delta" in out and "half against base, nll: " in cli("verdict", file, *places)[2]

    def records() -> tuple[int, list[dict]]:
        code, out, _ = cli("verdict", file, "--results", tmp_path / "results", "--cache-dir", tmp_path / "none", "--json")
        return code, [json.loads(line) for line in out.splitlines()]

    code, (record,) = records()
    assert record["metric"] == "nll" and record["effect"]["seeds"] == [2, 2] and record["effect"]["delta"] > 0
    assert (code, record["verdict"]) in [(0, "confirmed"), (0, "confirmed, larger"), (7, "open")]
    assert record["recorded"] is not None and record["changed"] is None
    file.write_text(TABLE.replace("effect: 0.01", "effect: -0.5"), encoding="utf-8")
    code, (record,) = records()
    assert code == 6 and record["verdict"] in ("reversed", "no such effect") and record["changed"]["effect"] == 0.01


def test_a_table_without_claims(spec, tmp_path, cli) -> None:
    file = spec(text=TABLE.replace("claims:\n  - {row: half, metric: nll, effect: 0.01}\n", ""))
    code, out, _ = cli("verdict", file, "--results", tmp_path / "results", "--json")
    found = [(each["row"], each["source"], each["verdict"]) for each in map(json.loads, out.splitlines())]
    assert code == 7 and found == [("demo/small/half", "row", "not run")], "a difference of rows"
    code, _, err = cli("verdict", f"{file}#base", "--results", tmp_path / "results")
    assert code == 2 and "found no claim" in err and "claims" in err
    file = spec(text=TABLE.replace("claims:\n", "claims:\n  - {row: half, effect: 1.0, seeds: 9}\n"))
    out = cli("verdict", file, "--results", tmp_path / "results", "--json")[1]
    assert [(each["metric"], each["least_seeds"]) for each in map(json.loads, out.splitlines())] == [("bleu", 9), ("nll", 2)]
