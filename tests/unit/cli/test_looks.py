"""`sweep --until-decided`: what a look decides, and that decisions stay."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from rich.console import Console

from orchestrator.cli.commands import looks, run
from orchestrator.cli.commands.looks import take
from orchestrator.cli.commands.request import Request
from orchestrator.cost import controls
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import Outcome
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.report.claims import Comparisons
from orchestrator.report.find import Finder
from orchestrator.scoring.significance.verdicts import Verdict
from orchestrator.specs.claims import of_data
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data
from tests.unit.report.test_effects import TABLE, finish


@pytest.mark.parametrize(
    ("word", "needed", "ends"),
    [
        ("confirmed", 9, "confirmed, why"), ("no such effect", None, "no such effect, why"), ("lower", None, "lower, why"),
        ("open", 6, None), ("open", 7, "open, 7 seeds needed and 6 are the most"),
        ("open", None, "open, over 200 seeds needed and 6 are the most"), ("one seed", None, None), ("not run", None, None),
    ],
)  # fmt: skip
def test_a_claim_ends_if_it_is_decided_or_hopeless(word: str, needed: int | None, ends: str | None) -> None:
    assert looks.ends(Verdict(word, "why", needed), 6) == ends


def test_rows_that_open_ones_need_go_on(spec) -> None:
    file = spec("  base: {pinned: true}\n  root: {}\n  child: {init_from: root}\n  other: {}\n  alone: {}\n")
    found = {name: f"demo/small/{name}" for name in ("base", "root", "child", "other", "alone")}
    start = {found[name]: found["base"] for name in ("root", "child", "other", "alone")}
    done = [(Verdict("confirmed", "p", 2), (found["base"],))]
    judged = dict.fromkeys((found["root"], found["other"], found["alone"]), done)
    judged[found["child"]] = [*done, (Verdict("open", "p", 5), (found["base"], found["other"]))]
    decisions = looks._decide(resolve(file), judged, start, 6)
    assert {name for name, row in found.items() if decisions[row]["continue"]} == {"base", "root", "child", "other"}
    assert decisions[found["child"]]["verdict"] == "confirmed, open" and "child needs it" in decisions[found["root"]]["reason"]
    judged[found["alone"]] = []
    decisions = looks._decide(resolve(file), judged, start, 6)
    assert decisions[found["alone"]]["continue"] and decisions[found["base"]]["continue"], "no runs to compare yet: more may be found"


@pytest.fixture
def rows(spec) -> list[Row]:
    return resolve(spec(text=TABLE))


SHARES = {"base": 0.60, "better": 0.64, "less": 0.58, "mine": 0.70, "worse": 0.60, "alone": 0.6}


def test_a_look_reads_the_first_seeds_and_the_claims(rows: list[Row], tmp_path, monkeypatch) -> None:
    """base and its claims of the paper: better +5, less +6, worse +1 (found 0); mine has none; alone's seeds are not in the ledger."""
    ledger = Ledger(tmp_path)
    for row in rows:
        name = row.id.rpartition("/")[2]
        for seed in [] if name not in SHARES or name == "alone" else [1, 2, 3]:
            finish(ledger, row, seed, SHARES[name])
        if name in ("base", "better"):
            finish(ledger, row, 4, 0.9)  # no seed of the first look
    request = Request.of(rows[0].source_file, ExecutionOptions(name="demo", results=tmp_path))
    monkeypatch.setattr(controls, "resolve", Mock(side_effect=AssertionError("the rows are known")))
    look = take(request, rows, [1, 2, 3, 4], request.options)
    assert (look["seeds"], look["all_seeds"], look["level"]) == (3, [1, 2, 3, 4], 0.0294)
    found = {name.rpartition("/")[2]: one for name, one in look["rows"].items()}
    assert found["better"]["verdict"] == "confirmed" and not found["better"]["continue"]
    assert found["less"]["verdict"] in ("reversed", "no such effect") and not found["less"]["continue"]
    assert found["mine"]["verdict"] == "higher" and not found["mine"]["continue"]
    assert found["alone"]["verdict"] == "not run" and found["alone"]["continue"] and found["base"]["continue"]
    assert found["base"]["verdict"] == "baseline" and "needs it" in found["base"]["reason"]
    before, out = (tmp_path / "looks.json").read_text(), Console(quiet=True)
    for status in ("failed", "done"):
        assert (tmp_path / "looks.json").read_text() == before, "a table of a sweep with a failed run is no look"
        run._print_results([Mock(seed=4, outcome=Outcome(status))], request, out, request.options)
    assert (tmp_path / "looks.json").read_text().count('"planned": 2') > before.count('"planned": 2'), "the second of two planned looks"


def test_a_question_beside_a_row_does_not_take_the_place_of_its_own_difference(rows: list[Row], tmp_path) -> None:
    ledger, shares = Ledger(tmp_path), {"base": 0.60, "less": 0.58, "mine": 0.70}
    own = [row for row in rows if row.id.rpartition("/")[2] in shares]
    for row in rows:
        for seed in (1, 2, 3):
            finish(ledger, row, seed, shares.get(row.id.rpartition("/")[2], 0.61))
    asked = [{"table": "demo/small", "claims": [{"row": "base", "against": "less"}, {"row": "mine", "against": "less"}]}]
    options = ExecutionOptions(name="demo", results=tmp_path, claims=asked)
    look = take(Request.of(rows[0].source_file, options), own, [1, 2, 3, 4], options)
    reasons = look["rows"]["demo/small/mine"]["reason"]
    assert look["rows"]["demo/small/mine"]["verdict"] == "higher" and reasons.count("higher, p = ") == 2, "over less, and over base"
    finder = Finder(ledger, Data(None))
    whole = Comparisons(rows, {row.id: finder.outcomes(row) for row in rows}, starts(rows), finder.reader, of_data(asked, "demo/small"))
    said = [one.verdict.reason for one in whole.judgements if one.stated and one.claim.row == "demo/small/mine"]
    assert len(said) == 2 and all(reason in reasons for reason in said), "p is adjusted for the whole table, though three rows are swept"


def test_a_row_that_the_first_look_lacks_gets_one(rows: list[Row], tmp_path, monkeypatch) -> None:
    """It is new in the table, or the first sweep was of another row alone."""
    calls, one = [], {"score": None, "reason": "", "continue": True}
    SweepFile.of(tmp_path, "demo").write({"rows": []})
    monkeypatch.setattr(looks, "execute", lambda rows, seeds, options: calls.append((len(rows), len(seeds))) or [])
    monkeypatch.setattr(looks, "take", lambda _, rows, seeds, __: {"seeds": 3, "all_seeds": seeds, "rows": {r.id: one for r in rows}})
    for some in (rows[:1], rows[:1], rows[:2]):
        looks.execute_looks(Mock(), some, [1, 2, 3, 4], ExecutionOptions(name="demo", results=tmp_path))
    assert calls == [(1, 3), (1, 4), (1, 4), (2, 3), (2, 4)]


# ---------------------------------------------------------------- the command

FILE = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
train: {max_steps: 4, validate_every: 4, checkpoint_every: 4}
sweep: {seeds: 4}
claims:
  - {row: short, metric: nll, effect: 0.9}
  - {row: wide, metric: nll, effect: 0.9, seeds: 4}
rows:
  base: {label: base, pinned: true}
  short: {label: half of the updates, train: {max_steps: 2, validate_every: 2, checkpoint_every: 2}}
  wide: {label: a little wider, model: {d_ff: 36}}
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_decisions_stay_and_what_is_decided_gets_no_more_seeds(tmp_path, cli, monkeypatch) -> None:
    """short has no such effect at the first look; wide, whose claim asks for four seeds, and its base go on."""
    file, results = tmp_path / "mine.yaml", tmp_path / "results"
    file.write_text(FILE, encoding="utf-8")
    call = ["sweep", file, "--engine", "local", "--no-tracking", "--json", "--until-decided", "--max-core-hours", 1]
    call += ["--results", results, "--cache-dir", tmp_path / "cache"]
    execute, calls = looks.execute, []

    def interrupted(rows, seeds, options):
        calls.append(list(seeds))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return execute(rows, seeds, options)

    monkeypatch.setattr(looks, "execute", interrupted)
    code, _, err = cli(*call)
    assert code == 130 and calls == [[1, 2, 3], [1, 2, 3, 4]]
    assert "short: look 1 of 2, 3 seeds: ends: no such effect" in err
    assert "wide: look 1 of 2, 3 seeds: goes on: open, 3 of the claim's 4 seeds" in err
    assert "base: look 1 of 2, 3 seeds: goes on: baseline; wide needs it" in err
    path = results / "sweeps" / "demo-small.json"
    (first,) = json.loads(path.read_text())["looks"]
    monkeypatch.setattr(looks, "execute", execute)
    monkeypatch.setattr(looks, "_judge", lambda compared: {})  # other decisions, were they taken again
    code, out, err = cli(*call)
    assert code == 0 and "short: look 1 of 2, 3 seeds: ends: no such effect" in err
    ran = {(record["id"].rpartition("/")[2], record["seed"]) for record in map(json.loads, out.splitlines())}
    assert ran == {(name, seed) for name in ("base", "short", "wide") for seed in (1, 2, 3, 4)} - {("short", 4)}
    assert json.loads(path.read_text())["looks"] == [first]

    code, out, _ = cli("table", file, "--results", results, "--cache-dir", tmp_path / "cache")
    assert code == 0 and "97.1 % (look 2, level 0.0294)" in out

    code, _, err = cli(*call, "--seeds", "1,2,3,4,5")
    assert code == 2 and "its seeds are [1, 2, 3, 4], found [1, 2, 3, 4, 5]" in err
    (again,) = [row for row in resolve(file) if row.id.endswith("/short")]
    finder = Finder(Ledger(results), Data(None))
    assert looks._ended(first, [again], [1, 2, 3, 4], finder) == [again.id]
    other = replace(again, spec=again.spec.model_copy(update={"train": again.spec.train.model_copy(update={"max_steps": 3})}))
    assert looks._ended(first, [other], [1, 2, 3, 4], finder) == [], "a row that was changed was not looked at"


ASHA = FILE.replace("seeds: 4", "seeds: 4, scheduler: {kind: asha, rungs: [2]}", 1)
STOPS = "mine.yaml:5: sweep.scheduler.kind: found asha, which stops runs; expected fifo"
NO_CAP = "--until-decided: found no cap; expected --max-core-hours"


@pytest.mark.parametrize(("text", "options", "message"), [(FILE, (), NO_CAP), (ASHA, ("--max-core-hours", 1), STOPS)])
def test_what_it_needs(spec, tmp_path, cli, text: str, options, message: str) -> None:
    file = spec(text=text, name="mine.yaml")
    code, _, err = cli("sweep", file, "--engine", "local", "--results", tmp_path / "results", "--until-decided", *options)
    assert code == 2 and message in err and len(err.splitlines()) == 1
    assert not (tmp_path / "results").exists()
