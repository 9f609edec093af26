"""`verdict --session`: a loop that tries changes, file after file, judged as one stream."""

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.data.prepare import Prepared, prepare
from orchestrator.files.canonical import digest
from orchestrator.ledger.results import Ledger
from orchestrator.report.sessions import read, undeclared
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from orchestrator.specs.claims import of_table
from orchestrator.specs.index import find
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from orchestrator.tuning import choice
from tests.unit.conftest import MINIMAL
from tests.unit.report.support import write_run
from tests.unit.report.test_effects import finish

TABLE = """\
source: {{paper: loop, table: try{number}}}
data: {{corpus: toy-smoke, subword: {{kind: word, size: 200}}, vocab: {{src: 200, tgt: 200}}}}
train: {{max_steps: 40}}
sweep: {{seeds: 3}}
claims:
  - {{row: changed, effect: 2.0, changes: {changes}}}
rows:
  base: {{}}
  changed: {row}
"""
SEEDS = (1, 2, 3)
REAL = 4
"""The only file whose change has an effect."""


def put(folder: Path, number: int, row: str = "", changes: str = "[optim.label_smoothing]") -> Path:
    path = folder / f"try{number}.yaml"
    row = row or f"{{optim: {{label_smoothing: {number / 100:.2f}}}}}"
    path.write_text(TABLE.format(number=number, row=row, changes=changes), encoding="utf-8")
    return path


def run(ledger: Ledger, row: Row, corpus: Prepared, wrong: float, generator: np.random.Generator) -> None:
    """A finished run with this share of wrong words."""
    (references,) = corpus.references("test")
    said = [" ".join("wrong" if generator.random() < wrong else word for word in line.split()) for line in references]
    write_run(ledger, row, hypotheses=said, bleu=1.0)
    keys = keys_for(row, Data(None))
    statistics = packed(of_translation(said, said, corpus, "test", row.spec.score))
    ledger.write_record(keys.train, "score", keys.score, score(said, said, corpus, "test", row.spec.score) | {"statistics": statistics})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_loop_of_twenty_files(tmp_path, cli) -> None:
    """Every file trains its own change, 19 of them without an effect; the same call again changes nothing."""
    generator, ledger = np.random.default_rng(3), Ledger(tmp_path / "results")
    files = [put(tmp_path, number) for number in range(1, 21)]
    accepted, codes = [], []
    places = ("--results", tmp_path / "results", "--cache-dir", tmp_path / "none", "--session", "loop")
    for number, file in enumerate(files, 1):
        base, changed = resolve(file)
        corpus = prepare(base.spec.data, None, tmp_path / "cache")
        for seed in SEEDS:
            if number == 1:
                run(ledger, base.at(seed), corpus, 0.25 + generator.normal(0, 0.01), generator)
            run(ledger, changed.at(seed), corpus, (0.02 if number == REAL else 0.25) + generator.normal(0, 0.01), generator)
        code, out, _ = cli("verdict", file, *places, "--json")
        (record,) = map(json.loads, out.splitlines())
        assert record["session"]["number"] == number and record["session"]["level"] > 0
        accepted += [number] if record["session"]["accepted"] else []
        codes.append(code)
    assert accepted == [REAL] and codes[REAL - 1] == 0 and {*codes[: REAL - 1], *codes[REAL:]} <= {6, 7}
    path = tmp_path / "results" / "sessions" / "loop.jsonl"
    before = path.read_text()
    code, _, err = cli("verdict", files[REAL - 1], *places)
    assert code == 0 and path.read_text() == before and "changed, bleu: accepted: p = " in err and f"claim {REAL} of session loop" in err
    lines = list(read(path).values())
    assert [line["number"] for line in lines] == [*range(1, 21)] and lines[REAL]["level"] > lines[REAL - 1]["level"]
    path.write_text("".join(before.splitlines(keepends=True)[1:]))
    code, _, err = cli("verdict", files[0], *places)
    assert code == 2 and "loop.jsonl: claim 1 is missing or was altered" in err


def test_what_a_session_refuses_or_leaves_open(tmp_path, cli) -> None:
    (tmp_path / "results").mkdir()
    places = ("--results", tmp_path / "results", "--session", "loop")
    file = put(tmp_path, 1, "{optim: {label_smoothing: 0.2, schedule: {warmup: 8}}}")
    code, _, err = cli("verdict", file, *places)
    assert code == 2 and "try1.yaml:6: claims[0].changes: changed differs in optim.schedule.warmup, too; expected" in err
    assert not (tmp_path / "results" / "sessions").exists()
    file = put(tmp_path, 2)
    file.write_text(file.read_text().replace("rows:", "  - {row: base, against: changed, effect: 0, margin: 1}\nrows:"))
    code, out, _ = cli("verdict", file, *places, "--json")
    assert code == 7 and json.loads(out)["session"] is None  # not run; the claim of no effect is left out
    code, _, err = cli("verdict", put(tmp_path, 2), *places[:2], "--session", "a/b")
    assert code == 2 and "--session a/b: expected letters" in err


def test_a_session_before_the_judging_runs_a_claim_in_both_orders_and_a_failed_seed(spec, tmp_path, cli) -> None:
    text = "  base: {pinned: true}\n  better: {model: {d_ff: 40}}\n  worse: {model: {d_ff: 48}}\nclaims:\n"
    for claim in ("row: better, effect: 3", "row: worse, effect: 3", "row: base, against: better, effect: -3"):
        text += f"  - {{{claim}, changes: [model.d_ff]}}\n"
    text += "tune: {trials: 2, space: {optim.label_smoothing: {uniform: [0, 1]}}, seeds: {search: [101], judge: [4, 5]}}\n"
    file, ledger = spec(text), Ledger(tmp_path / "results")
    about = {"tune": choice.plain(find(str(file)).table.head.tune), "written": {}, "chosen": 1, "warnings": [], "time": 1.0}
    for row, share in zip(rows := resolve(file), (0.6, 0.7, 0.55), strict=True):
        train, *_ = [finish(ledger, row, seed, share) for seed in (101, *SEEDS)]
        of_trial = {"train": train, "decode": None, "score": None}
        ledger.write_spec(train, {"id": row.id, "seed": 101, "spec": row.at(101).spec.model_dump(), "keys": of_trial})
        trials = [{"number": n, "changes": {"optim.label_smoothing": n / 9}, "value": -n, "runs": {"101": train}} for n in (0, 1)]
        ledger.write_record(train, "search", digest(row.id), about | {"row": row.id, "trials": trials})
    command = ("verdict", file, "--results", ledger.root, "--session", "loop", "--json")
    judged = lambda: [json.loads(line)["session"] for line in cli(*command)[1].splitlines()[:3]]  # noqa: E731
    assert [(line["number"], line["accepted"]) for line in judged()] == [(1, True), (2, False), (1, True)]
    ledger.write_train(finish(ledger, rows[1], 4, 0.7), {"status": "diverged", "steps": 2, "params": 1000, "reason": "loss"})
    assert [line is None for line in judged()] == [True, False, True]


@pytest.mark.parametrize(
    ("row", "changes", "expected"),
    [
        ("{model: {d_ff: 48}}", "[model.d_ff]", []),
        ("{model: {d_ff: 48}}", "[model]", []),
        (
            "{model: {d_ff: 48}, optim: {schedule: {warmup: 8}}}", "[model.d_ff]",
            ["claims[0].changes: fused differs in optim.schedule.warmup, too; expected it to differ from demo/small/base only in what"],
        ),
        ("{model: {encoder: {connection: {kind: dense}}}}", "[model.decoder]", ["fused differs in model.encoder.connection, too"]),
        ("{train: {max_steps: 8}}", "null", ["fused differs in train.max_steps; expected it"]),
        ("{kind: external}", "[model]", []),
    ],
)  # fmt: skip
def test_changes_that_a_claim_does_not_name(tmp_path, row: str, changes: str, expected: list[str]) -> None:
    text = MINIMAL + f"  base: {{}}\n  fused: {row}\nclaims:\n  - {{row: fused, effect: 1, changes: {changes}}}\n"
    (tmp_path / "demo.yaml").write_text(text, encoding="utf-8")
    rows = resolve(tmp_path / "demo.yaml")
    table = find(str(tmp_path / "demo.yaml")).table
    found = undeclared(table.document, of_table(table.address, table.head.claims), {row.id: row for row in rows}, starts(rows))
    assert len(found) == len(expected) and all(words in line for words, line in zip(expected, found, strict=True))
    assert all(":9:" in line for line in found)
