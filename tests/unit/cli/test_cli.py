"""The command line: exit codes, what goes where."""

import json

import pytest

from orchestrator.cli.commands import run as command
from orchestrator.errors import LockedError
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import Outcome, RunView
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import Result

QUICK = "quickstart/fusion"


def test_plan_prints_json_and_nothing_else(cli, spec, tmp_path) -> None:
    path = spec("  a: {}\n  b: {}\n")
    code, out, err = cli("plan", path, path, "--json", "--results", tmp_path / "r", "--seeds", "1,2")
    assert code == 0 and out.count("\n") == 1 and "4 runs" in err, "a table that is given twice counts once"
    found = json.loads(out)["rows"]
    assert json.loads(out)["rates"] == dict.fromkeys(("demo/small/a", "demo/small/b"), "adam, noam x1, warmup 4000")
    expected = [each for seed in (1, 2) for each in (("demo/small/a", seed, "new", None), ("demo/small/b", seed, "shared", "demo/small/a"))]
    assert [(row["id"], row["seed"], row["status"], row["same_as"]) for row in found] == expected
    assert set(found[0]["keys"]) == {"train", "decode", "score"} and not (tmp_path / "r").exists()


def test_plan_names_shipped_results(cli, spec, tmp_path, monkeypatch) -> None:
    path, published = spec("  a: {}\n"), tmp_path / "published"
    code, out, err = cli("plan", path, "--json", "--results", tmp_path / "r")
    (row,) = json.loads(out)["rows"]
    assert code == 0 and row["shipped"] is False and "1 run: 1 new; 1 training to do\n" in err and "others start from" not in err
    published.mkdir()
    monkeypatch.setattr("orchestrator.paths.PUBLISHED_LEDGER", published)
    train, decode, score = (row["keys"][kind] for kind in ("train", "decode", "score"))
    Ledger(published).write_train(train, {"status": "done", "key": train})
    Ledger(published).write_record(train, "score", score, {"key": score, "decode_key": decode, "bleu": 30.0})
    code, out, err = cli("plan", path, "--results", tmp_path / "r")
    assert "done (shipped)" in out and "1 run: 1 done (all shipped with the product); 0 trainings to do\n" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "dou2018/table1", "--seeds", "1,1"], "distinct"),
        (["run", "dou2018/table1/row1", "--workers", "2"], "expected --engine ray"),
        (["run", "dou2018/table1/row1", "--engine", "rya"], "did you mean ray"),
        (["run", "dou2018/table1/row1", "--engine", "ray", "--jobs", "2"], "expected --engine local"),
        (["run", "dou2018/table1/row1", "--jobs", "0"], "expected auto or a number"),
        (["run", "dou2018/table1/row1"], "wmt14-en-de"),
        (["show", "dou2018/table1"], "expected one"),
        (["table", "dou2018/table1", "--format", "xls"], "'xls' is not one of 'terminal'"),
        (["list", "nothing"], "no row has such an address"),
        (["reconcile", "--results", "/nowhere"], "no such folder"),
        (["plan", QUICK, "--set", "train.max_steps=2", "--set", "train.max_steps=3"], "found --set train.max_steps=2 too"),
        (["table", QUICK, "--columns", "row,,bleu"], "--columns"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(cli, arguments: list[str], message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(*arguments)
    assert code == 2 and out == "" and message in err, err
    assert all(line.startswith("error: ") for line in err.splitlines()) and "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing was started"


class Fake:
    """An engine that gives back records, or raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: object) -> None:
        self.calls: list[tuple[list[str], list[int], object]] = []

        def execute(rows: list, seeds: list[int], options: ExecutionOptions) -> list[Result]:  # type: ignore[type-arg]
            self.calls.append(([row.id for row in rows], list(seeds), options))
            if isinstance(outcome, BaseException):
                raise outcome
            found = Outcome(*str(outcome).split(": ", 1))
            view = RunView.read(Ledger(options.results), {"": Keys(None, None, None)})
            return [Result(id=row.id, seed=seed, view=view, outcome=found, folder="") for row in rows for seed in seeds]

        monkeypatch.setattr(command, "execute", execute)


@pytest.mark.parametrize(("status", "code"), [("done", 0), ("stopped", 0), ("failed", 1), ("diverged", 1), ("failed: LockedError: x", 3)])
def test_exit_code_follows_the_rows(cli, spec, monkeypatch, status: str, code: int) -> None:
    Fake(monkeypatch, status)
    found, out, err = cli("run", spec(), "--json")
    assert found == code and json.loads(out)["status"] == status.partition(":")[0] and "base" in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (LockedError("results/x is locked by process 7"), 3, "process 7"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("boom\nsecond line"), 1, "RuntimeError: boom second line (found ulimit -v 1,024, which may be too little; "),
    ],
)
def test_errors_become_one_line(cli, spec, monkeypatch, error: BaseException, code: int, message: str) -> None:
    Fake(monkeypatch, error)
    monkeypatch.setattr("resource.getrlimit", lambda which: (2**20, 2**20))
    found, out, err = cli("run", spec(), "--json")
    assert found == code and out == "" and message in err and err.count("\n") == 1


@pytest.mark.slow
def test_sweep_takes_seeds_and_scheduler_of_the_file(cli, spec, monkeypatch) -> None:
    fake = Fake(monkeypatch, "done")
    path = spec("  a: {}\n  q: {kind: quoted, expect: {bleu: 3}}\n  b: {model: {d_ff: 8}}\n")
    path.write_text(path.read_text().replace("rows:", "sweep: {seeds: [3, 4], scheduler: {kind: asha, rungs: [2]}}\nrows:"))
    assert cli("sweep", path)[0] == 0
    ids, seeds, options = fake.calls[0]
    assert ids == ["demo/small/a", "demo/small/b"] and seeds == [3, 4], "quoted rows are not executed"
    assert options.sweep["scheduler"]["rungs"] == [2] and options.engine == "local" and options.name == "demo/small"  # type: ignore[attr-defined]
    cli("sweep", path, "--seeds", "9, 1-3,5-5", "--engine", "local", "--set", "model.d_ff=8")
    assert fake.calls[1][1] == [9, 1, 2, 3, 5] and fake.calls[1][2].name != "demo/small"  # type: ignore[attr-defined]
    cli("run", f"{path}#a", "--seed", "6", "--profile", "smoke")
    ids, seeds, options = fake.calls[2]
    assert (ids, seeds, options.sweep, options.name) == (["demo/small/a"], [6], None, "demo/small/a@smoke:6")  # type: ignore[attr-defined]
