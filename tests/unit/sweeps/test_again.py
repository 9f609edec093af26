"""An edited component is told of, and `run --again` trains anew beside the old result, whatever ends it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.ledger import component_sources, superseded
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from tests.unit.history import publish
from tests.unit.lifecycle.life import ROOT, rows_in, tree

TOP, LINEAR = "models/plain.py", "models/aggregations/linear.py"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def copy(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained[1], tmp_path / "results"))


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`edit(file, text)` adds text to a file of a copy of `models`, which is from then on what the program is made of."""
    shutil.copytree(ROOT / "models", tmp_path / "code" / "models", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(component_sources, "ROOT", tmp_path / "code")

    def run(file: str, text: str = "\nX = 1\n") -> None:
        with (tmp_path / "code" / file).open("a") as out:
            out.write(text)

    return run


@pytest.fixture
def repaired(edit: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The component computes something else, and its source says so."""
    from models.plain import Top

    edit(TOP)
    monkeypatch.setattr(Top, "forward", lambda self, x_top, history, flow: 0.5 * self.norm(x_top) if hasattr(self, "norm") else 0.5 * x_top)


def sha(results: Path, key: str) -> str:
    record = Ledger(results).read_train(key)
    assert record is not None and record["status"] == "done"
    return str(record["weights_sha256"])


@pytest.mark.slow
def test_the_four_commands_warn_with_row_and_file(trained, copy: Path, cli: Cli, edit) -> None:
    spec, _, cache = trained
    options = ("--results", copy, "--cache-dir", cache)
    commands = {
        "run": ("run", f"{spec}#base", "--no-tracking", "--json", *options),
        "sweep": ("sweep", spec, "--engine", "local", "--no-tracking", "--json", *options),
        "plan": ("plan", spec, "--json", *options),
        "table": ("table", spec, "--format", "json", *options),
    }

    def look() -> dict[str, tuple[str, str]]:
        found = {name: cli(*command) for name, command in commands.items()}
        assert all(code == 0 for code, _, _ in found.values()), found
        assert all("0 steps executed" in found[name][2] for name in ("run", "sweep"))
        return {name: (out, err) for name, (_, out, err) in found.items()}

    edit(LINEAR)
    edit(TOP, "\n\n# a comment\n")
    assert not [err for _, err in look().values() if "warning" in err], "another component, and a comment"
    edit(TOP)
    found = look()
    for name, (_, err) in found.items():
        rows = "life/cycle/base" if name == "run" else "life/cycle/base, life/cycle/child"
        assert f"warning: {rows}: {TOP} changed since the training" in err and f"--results {copy} --again" in err, name
    lines = [json.loads(line) for name in ("run", "sweep") for line in found[name][0].splitlines()]
    assert [line["changed"] for line in lines] == [[TOP]] * 3
    assert [row["changed"] for row in json.loads(found["plan"][0])["rows"]] == [[TOP]] * 2
    table = json.loads(found["table"][0])
    assert [row["ours"]["changed"] for row in table["rows"]] == [[TOP]] * 2 and any(TOP in note for note in table["notes"])


@pytest.mark.slow
def test_again_trains_anew_and_the_old_result_stays_readable(trained, copy: Path, cli: Cli, repaired) -> None:
    spec, _, cache = trained
    options = ("--results", copy, "--cache-dir", cache, "--no-tracking", "--json")
    key, child = (rows_in(copy)[f"life/cycle/{name}"] for name in ("base", "child"))
    before, old, kept = sha(copy, key), tree(copy / key[:16]), copy / "earlier" / "1" / key[:16]
    untouched = tree(copy / child[:16])
    code, out, err = cli("run", f"{spec}#base", "--again", *options)
    assert code == 0 and str(kept) in err and f"{TOP} changed since" not in err
    new = sha(copy, key)
    assert new != before and json.loads(out)["weights_sha256"] == new and json.loads(out)["changed"] == []
    assert tree(kept) == old and sha(copy / "earlier" / "1", key) == before and not list(kept.glob("lock*"))
    shown = json.loads(cli("table", spec, "--format", "json", "--results", copy / "earlier" / "1", "--cache-dir", cache)[1])
    assert shown["rows"][0]["ours"]["bleu"] is not None
    assert tree(copy / child[:16]) == untouched
    code, out, err = cli("run", f"{spec}#child", *options)
    assert code == 0 and "0 steps executed" in err
    assert [json.loads(line)["changed"] for line in out.splitlines()] == [[], [TOP, component_sources.PARENT]]
    assert f"life/cycle/child: {TOP}, {component_sources.PARENT} changed" in err
    note = json.loads(cli("table", spec, "--format", "json", "--results", copy, "--cache-dir", cache)[1])["notes"]
    assert any("base: trained again" in line and "earlier/1" in line for line in note)
    before_gc = tree(copy / "earlier")
    assert cli("gc", "--results", copy, "--delete", "--weights")[0] == 0 and tree(copy / "earlier") == before_gc


@pytest.mark.parametrize(
    ("fault", "moved", "steps"), [("again_pre_rename:kill", False, 0), ("again_post_rename:kill", True, 0), ("step@5:kill", True, 4)]
)
def test_killed_it_leaves_the_old_result_or_the_old_beside_and_goes_on(
    trained, copy: Path, cli: Cli, forked, repaired, fault: str, moved: bool, steps: int
) -> None:
    spec, _, cache = trained
    arguments = ["run", f"{spec}#base", "--results", str(copy), "--cache-dir", str(cache), "--no-tracking", "--json"]
    key = rows_in(copy)["life/cycle/base"]
    old = sha(copy, key)

    def again() -> None:
        from orchestrator.cli.main import run

        run([*arguments, "--again"])

    assert forked(again, fault) == -9
    beside = copy / "earlier" / "1"
    assert sha(beside if moved else copy, key) == old and (copy / key[:16] / "train.json").exists() != moved
    if steps:  # the same command goes on too: what is unfinished is of this very code
        code, out, err = cli(*arguments, "--again")
        assert "is kept in" not in err
    else:
        code, out, err = cli(*arguments)
    assert code == 0 and ("0 steps executed" in err) == (not moved)
    assert sha(beside if moved else copy, key) == old and (sha(copy, key) != old) == moved
    assert json.loads(out)["weights_sha256"] == sha(copy, key) and not (copy / "earlier" / "2").exists()
    assert len((copy / key[:16] / "journal.jsonl").read_text().splitlines()) == (6 + steps - 3 if steps else 6), "from the checkpoint at 3"


def test_a_checkpoint_of_other_code_is_no_start(trained, copy: Path, cli: Cli, edit) -> None:
    """A plain run goes on from it and says so, now and whenever it is looked at; --again begins anew."""
    spec, _, cache = trained
    arguments = ("run", f"{spec}#base", "--results", copy, "--cache-dir", cache, "--no-tracking", "--json")
    run = copy / rows_in(copy)["life/cycle/base"][:16]
    for name in ("train.json", "ckpt/step-00000006"):
        (shutil.rmtree if (run / name).is_dir() else os.unlink)(run / name)
    edit(TOP)
    code, out, err = cli(*arguments)
    assert code == 0 and f"{TOP} changed since the checkpoint" in err and json.loads(out)["changed"] == [TOP]
    (run / "train.json").unlink()
    code, out, err = cli(*arguments, "--again")
    assert code == 0 and "is kept in" in err and json.loads(out)["changed"] == [] and len(superseded.folders(copy, run.name)) == 1


def test_again_of_a_published_result_trains_it_here(trained, tmp_path: Path, cli: Cli, repaired, monkeypatch) -> None:
    """The read-only ledger is as it was, and its result is no longer taken for this row's."""
    from orchestrator.cli.commands import run as command

    spec, results, cache = trained
    key, here, published = rows_in(results)["life/cycle/base"], tmp_path / "here", tmp_path / "published"
    publish(Ledger(results), key, published)
    monkeypatch.setattr(command, "published_ledgers", lambda: [published])
    arguments = ("run", f"{spec}#base", "--results", here, "--cache-dir", cache, "--no-tracking", "--json")
    before = tree(published)
    assert "0 steps executed" in cli(*arguments)[2]
    code, out, _ = cli(*arguments, "--again")
    assert code == 0 and json.loads(out)["weights_sha256"] == sha(here, key) != sha(published, key) == sha(here / "earlier" / "1", key)
    assert tree(published) == before
    shutil.rmtree(here / key[:16])
    assert Ledger(here, [published]).read_train(key) is None


def test_refused_before_anything_moves(trained, copy: Path, cli: Cli) -> None:
    spec, _, cache = trained
    options = ("--again", "--results", copy, "--cache-dir", cache, "--no-tracking")
    base, child = (copy / rows_in(copy)[f"life/cycle/{name}"][:16] for name in ("base", "child"))
    with RunLock(base / "lock"):
        code, _, err = cli("run", spec, *options)
    assert code == 3 and base.name in err and not (copy / "earlier").exists()
    shutil.rmtree(base / "weights")
    code, _, err = cli("run", f"{spec}#child", *options)
    assert code == 2 and "the weights of life/cycle/base" in err and not (copy / "earlier").exists() and (child / "train.json").exists()


def test_the_store_gets_a_run_of_its_own_for_each_training(fake_results, tmp_path: Path) -> None:
    """Metrics of a tracked run are logged beyond its last step alone: the new training's would never come."""
    from orchestrator.tracking.source import read_sweep

    row = fake_results.row("dense")
    fake_results.finished(row)
    path = fake_results.root / "sweeps" / f"{fake_results.sweep([row])}.json"
    first = read_sweep(path).rows[0].key
    superseded.set_aside(fake_results.root, row["keys"]["train"][:16])
    assert read_sweep(path).rows[0].key != first
