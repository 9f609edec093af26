"""Run again from what was recorded: the same bits, or which part of the capsule explains that they are not."""

import json
import shutil
import signal
from unittest.mock import MagicMock

from orchestrator.cli.main import run
from orchestrator.ledger.provenance import collect, flat
from orchestrator.lifecycle.reproduce import fresh_folder
from orchestrator.lifecycle.verdict import DECIDING
from tests.unit.lifecycle.life import SPEC, edit, rows_in, tree


def test_what_decides_bits_are_parts_of_a_real_capsule():
    names = flat(collect("cpu", 1))
    assert all(any(name == part or name.startswith(f"{part}.") for name in names) for part in DECIDING)


def test_a_row_and_the_one_it_starts_from_give_the_same_bits(trained, cli):
    spec, results, cache = trained
    before = tree(results)
    code, out, err = cli("repro", f"{spec}#child", "--results", results, "--cache-dir", cache, "--json")
    found = json.loads(out)
    assert code == 0 and found["verdict"] == "same bits" and "same bits" in err
    assert [(run["id"], run["verdict"]) for run in found["runs"]] == [("life/cycle/base", "same bits"), ("life/cycle/child", "same bits")]
    measured = {one["what"]: one for one in found["runs"][1]["measures"]}
    assert len(measured["weights_sha256"]["again"]) == 64 and len(measured["hypotheses_sha256"]["recorded"]) == 64 and "BLEU" in measured
    assert tree(results) == before and not list(results.glob(".repro*"))


def test_other_bits_are_told_and_excused_by_the_capsule_alone_and_workers_are_the_recorded(trained, copy, cli, monkeypatch):
    cache = trained[2]
    key = rows_in(copy)["life/cycle/base"]
    edit(copy / key[:16] / "train.json", weights_sha256="f" * 64)
    command = ("repro", key[:16], "--results", copy, "--cache-dir", cache)
    code, out, err = cli(*command)
    assert code == 1 and "bits differ" in err and "weights_sha256" in out
    capsule = json.loads((copy / key[:16] / "capsule.json").read_text())
    edit(copy / key[:16] / "capsule.json", libraries=capsule["libraries"] | {"torch": "1.0"})
    code, out, err = cli(*command)
    assert code == 0 and "within tolerance" in err and "libraries.torch differs" in err and "1.0" in out
    assert cli(*command, "--strict")[0] == 1
    edit(copy / key[:16] / "train.json", world_size=2)
    monkeypatch.setattr("orchestrator.lifecycle.reproduce.ENGINES", {"ray": (ray := MagicMock())})
    ray.run.side_effect = lambda jobs, *_: {jobs[0][0].name: f"{jobs[0][0].workers} workers"}
    code, _, err = cli(*command)
    assert code == 1 and "error: life/cycle/base:1: 2 workers" in err and ray.session.call_args.args[1] == 2


def test_a_row_that_changed_since_is_run_as_it_was_recorded_by_its_key(trained, copy, cli, tmp_path):
    _, _, cache = trained
    changed, key = tmp_path / "spec.yaml", rows_in(copy)["life/cycle/base"][:16]
    changed.write_text(SPEC.replace("max_steps: 6", "max_steps: 9"))
    code, _, err = cli("repro", f"{changed}#base", "--results", copy, "--cache-dir", cache)
    assert code == 2 and f"an earlier spec or corpus: {key}" in err
    code, out, err = cli("repro", key, "--results", copy, "--cache-dir", cache, "--json")
    assert code == 0 and json.loads(out)["verdict"] == "same bits"
    assert {one["what"]: one["again"] for one in json.loads(out)["runs"][0]["measures"]}["steps"] == 6


def test_of_two_runs_with_the_parents_address_the_recorded_one_is_taken(copy, trained, cli, tmp_path):
    """As in a ledger without sweep files, where a row was trained on two corpora."""
    _, _, cache = trained
    key = rows_in(copy)["life/cycle/child"]
    shutil.rmtree(copy / "sweeps")
    other = tmp_path / "spec.yaml"
    other.write_text(SPEC.replace("max_steps: 6", "max_steps: 3"))
    assert cli("run", f"{other}#base", "--results", copy, "--cache-dir", cache, "--engine", "local", "--no-tracking")[0] == 0
    code, out, err = cli("repro", key, "--results", copy, "--cache-dir", cache, "--json")
    assert code == 0 and [run["id"] for run in json.loads(out)["runs"]] == ["life/cycle/base", "life/cycle/child"], err


def test_without_a_results_folder_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with fresh_folder(tmp_path / "none", None, "key") as folder:
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())


def test_killed_it_goes_on_in_the_place_it_was_given(trained, cli, tmp_path, forked):
    spec, results, cache = trained
    command = ["repro", f"{spec}#base", "--results", str(results), "--cache-dir", str(cache), "--into", str(tmp_path / "again")]
    assert forked(lambda: run(command), "step@5:kill") == -signal.SIGKILL
    code, out, _ = cli(*command, "--json")
    assert code == 0 and json.loads(out)["verdict"] == "same bits"
    (journal,) = (tmp_path / "again").glob("*/journal.jsonl")
    assert len(journal.read_text().splitlines()) == 7, "steps 1 to 4, then 4 to 6 from the checkpoint of step 3"
    code, _, err = cli("repro", f"{spec}#child", *command[2:])
    assert code == 2 and "is not empty" in err


def test_bad_input(trained, copy, cli, tmp_path):
    spec, _, cache = trained
    key = rows_in(copy)["life/cycle/base"][:16]
    edit(copy / key / "train.json", status="stopped")
    other = tmp_path / "other.yaml"
    other.write_text(SPEC.replace("table: cycle", "table: other").replace("d_ff: 32", "d_ff: 16"))
    for arguments, message in (
        ((key,), "expected one that is done"),
        ((f"{spec}#base",), "expected one that is done"),
        ((f"{other}#base",), "found no recorded run"),
        ((spec,), "expected one"),
        (("0" * 16,), "0 runs"),
        ((key, "--seed", "3"), "implies seed"),
    ):
        code, out, err = cli("repro", *arguments, "--results", copy, "--cache-dir", cache)
        assert code == 2 and out == "" and message in err and len(err.splitlines()) == 1, err
    assert not list(copy.glob(".repro*"))
