"""`--ladder`: one command trains the rows at three sizes; table, verdict and report show the effect by size."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TABLE = """\
source: {paper: mine, table: sizes}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 600}
model: {d_model: 32, d_ff: 64, num_heads: 4, norm: pre, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-2, warmup: 20}}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 40}
decode: {beam_size: 1, max_length: 20}
sweep: {seeds: [1, 2]}
ladder: [LADDER]
claims: [{row: long, effect: 0.5}]
rows:
  baseline: {pinned: true}
  long: {model: {encoder: {num_layers: 2}}}
"""


def test_a_table_at_three_sizes(cli: Any, tmp_path: Path) -> None:
    names = []
    for width, steps in ((0.25, 10), (0.5, 20), (1, 40)):
        extends = f"extends: {Path(names[-1]).name}\n" if names else ""
        names.append(str(tmp_path / f"w{steps}.yaml"))
        Path(names[-1]).write_text(f"{extends}width: {width}\ntrain: {{max_steps: {steps}}}\n")
    table = tmp_path / "sizes.yaml"
    table.write_text(TABLE.replace("LADDER", ", ".join(names)))
    places = ("--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")
    code, out, err = cli("sweep", table, "--ladder", "file", "--engine", "local", "--no-tracking", *places)
    assert code == 0 and "mine/sizes at 3 sizes" in out, err
    found = json.loads(cli("table", table, "--ladder", ",".join(names), "--json", *places)[1])
    rows = {row["metric"]: row for row in found["rows"]}
    assert set(rows) == {"bleu", "nll"} and [size["profile"] for size in rows["nll"]["sizes"]] == names
    params = [size["params"] for size in rows["nll"]["sizes"]]
    assert params == sorted(params) and params[0] < params[-1] and rows["nll"]["slope"]["low"] < rows["nll"]["slope"]["per_doubling"]
    for size, name in zip(rows["nll"]["sizes"], names, strict=True):
        scaled = json.loads(cli("table", table, "--profile", name, "--json", *places)[1])["rows"]
        (alone,) = [row for row in scaled if row["id"].endswith("long")]
        assert size["effect"] == alone["ours"]["nll"]["effect"] and size["verdict"] == alone["ours"]["nll"]["verdict"]["word"]
    assert any("tokens per parameter" in note for note in found["notes"]) and all(size["speed_up"] for size in rows["nll"]["sizes"])
    told = [line for line in cli("verdict", table, "--ladder", "file", *places)[2].splitlines() if line.startswith("long")]
    assert told and all(line.startswith(tuple(f"long, {name}" for name in names)) for line in told)
    assert "no result of two seeds: long at smoke" in cli("table", table, "--ladder", f"{names[0]},smoke", *places)[1]
    judged = [json.loads(line) for line in cli("verdict", table, "--ladder", "file", "--json", *places)[1].splitlines()]
    assert [each["size"] for each in judged if each["metric"] == "bleu"] == names
    assert cli("plan", table, "--ladder", "file", *places)[2].count("0 trainings to do") == 3
    page = Path(cli("report", table, "--ladder", "file", *places)[1].strip()).read_text()
    assert "mine/sizes at 3 sizes" in page and 'id="ladder0-chart"' in page
    drawn = Path(cli("report", table, "--ladder", "file", "--markdown", *places)[1].strip())
    assert "each doubling" in drawn.read_text() and list(drawn.parent.glob("*-ladder.svg"))


def test_a_corpus_that_a_later_size_lacks_is_told_before_the_first_trains(cli: Any, tmp_path: Path) -> None:
    places = ("--results", tmp_path / "results", "--data-dir", tmp_path)
    code, _, err = cli("sweep", "quickstart/fusion", "--ladder", "smoke,mini", "--engine", "local", *places)
    assert code == 2 and "multi30k/train.de[.gz]: no such file" in err and not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--ladder", "smoke"), "--ladder smoke: expected two or more different profiles"),
        (("--ladder", "smoke,smoke"), "--ladder smoke,smoke: expected two or more different profiles"),
        (("--ladder", "smoke,mimi"), "--ladder mimi: unknown profile; expected one of gpu, mini, "),
        (("--ladder", "file"), "--ladder file: quickstart/fusion: found no section `ladder`"),
        (("--ladder", "smoke,mini", "--profile", "mini"), "--ladder: found --profile too"),
    ],
)
def test_what_is_no_ladder_is_refused(options: tuple[str, ...], line: str, cli: Any) -> None:
    code, _, err = cli("sweep", "quickstart/fusion", "--engine", "local", *options)
    assert code == 2 and err.startswith(f"error: {line}") and err.count("\n") == 1
