"""What may go and what never does; nothing half there when it is killed."""

import json
import signal
from pathlib import Path

import pytest

from orchestrator.ledger.run_lock import RunLock
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.garbage import collect
from tests.unit.lifecycle.life import goes, put, tensors, tree

LEDGER = ("train.json", "capsule.json", "spec.yaml", "history.jsonl")


def kept(found, run: Path) -> dict[str, str]:
    return {one.path.name: one.rule for one in found.kept if run in (one.path, *one.path.parents)}


@pytest.fixture
def states(fake_results):
    """results, rows by name: done, stopped, failed, diverged, cut (unfinished), unscored, orphan; all with tensors."""
    rows = {name: fake_results.row(name) for name in ("done", "stopped", "failed", "diverged", "cut", "unscored", "orphan")}
    for name, row in rows.items():
        fake_results.history(row, 1, 3)
        put(fake_results.run_dir(row) / "spec.yaml", f"key: {row['keys']['train']}\nid: {row['id']}\nseed: 1\nspec: {{}}\n")
        tensors(fake_results.run_dir(row))
        if name in ("done", "orphan"):
            fake_results.train(row)
            fake_results.score(row)
        elif name != "cut":
            fake_results.train(row, "done" if name == "unscored" else name)
    fake_results.sweep([row for name, row in rows.items() if name != "orphan"])
    return fake_results.root, {name: fake_results.run_dir(row) for name, row in rows.items()}, rows


def test_checkpoints_of_finished_runs_and_tensors_of_orphans_go(states):
    results, runs, _ = states
    found = collect(results)
    assert goes(found, runs["done"]) == {"ckpt"} == goes(found, runs["diverged"]) == goes(found, runs["unscored"])
    assert goes(found, runs["orphan"]) == {"ckpt", "snapshots", "weights"}
    for name in ("stopped", "failed", "cut"):
        assert goes(found, runs[name]) == set() and kept(found, runs[name]) == dict.fromkeys(("ckpt", "snapshots", "weights"), "resume")
    assert kept(found, runs["done"]) == {"weights": "weights", "snapshots": "weights"}


def test_a_dry_run_changes_nothing_and_deleting_leaves_the_ledger_as_it_was(states, cli):
    results, runs, _ = states
    before = tree(results)
    code, out, err = cli("gc", "--results", results)
    assert code == 0 and "would be removed" in out and "orphan" in out and "nothing was changed" in err and "resume" in out
    code, out, _ = cli("gc", "--results", results, "--json")
    found = json.loads(out)
    assert code == 0 and found["deleted"] is False and found["bytes"] == sum(item["bytes"] for item in found["items"]) > 0
    assert tree(results) == before
    code, out, _ = cli("gc", "--results", results, "--delete", "--json")
    assert code == 0 and json.loads(out)["deleted"]
    after = tree(results)
    assert after.items() <= before.items()
    assert all("/ckpt/" in name or name.startswith(runs["orphan"].name) for name in before.keys() - after.keys())
    assert {f"{runs['orphan'].name}/{name}" for name in LEDGER} <= after.keys()
    assert not list(results.glob("*/lock*")) and not list(results.glob(".life*"))
    assert json.loads(cli("gc", "--results", results, "--delete", "--json")[1])["items"] == []


def test_weights_go_only_when_asked_for_and_nothing_needs_them(states):
    results, runs, _ = states
    found = collect(results, weights=True)
    assert goes(found, runs["done"]) == {"ckpt", "snapshots", "weights"}
    assert kept(found, runs["unscored"]) == {"weights": "decode", "snapshots": "decode"}
    (runs["unscored"] / "weights" / "last.json").unlink()
    assert kept(collect(results), runs["unscored"])["ckpt"] == "only-weights", "the last weights of a row that lacks a score"


def test_no_run_is_an_orphan_where_a_sweep_file_cannot_be_read_or_there_is_none(states):
    results, runs, _ = states
    put(results / "sweeps" / "half.json", '{"rows": [')
    found = collect(results)
    assert goes(found, runs["orphan"]) == {"ckpt"} and kept(found, runs["orphan"])["weights"] == "unreadable"
    assert "half.json" in found.notes[0]
    for path in (results / "sweeps").iterdir():
        path.unlink()
    assert goes(collect(results, weights=True), runs["orphan"]) == {"ckpt"}


def test_all_of_a_run_that_is_held_or_whose_sweep_is_driven_stays(states):
    results, runs, _ = states
    put(runs["done"] / ".train.json.1-00000000.tmp")
    with RunLock(runs["done"] / "lock"):
        found = collect(results, weights=True)
        assert goes(found, runs["done"]) == set() and kept(found, runs["done"]) == {runs["done"].name: "running"}
    with RunLock(results / "sweeps" / "sweep-1.lock"):
        found = collect(results, weights=True)
        assert {item.run for item in found.items} == {runs["orphan"].name}
    with RunLock(results / "sweeps" / "just-starting.lock"):
        put(results / "ray" / "x-0" / "state.json")
        assert not [item for item in collect(results).items if item.kind == "ray"]


def test_a_run_that_is_taken_between_looking_and_deleting_stays(states, monkeypatch):
    results, runs, _ = states
    monkeypatch.setattr(garbage, "owner", lambda path: None)  # it looks free
    with RunLock(runs["done"] / "lock"):
        found = collect(results, delete=True)
    assert (runs["done"] / "ckpt").exists() and "locked" in next(one.why for one in found.kept if one.path == runs["done"])
    assert runs["orphan"] / "weights" in [item.path for item in found.items]


def test_leftovers_of_killed_writers_go(states):
    results, runs, _ = states
    for name in (".train.json.77-0123abcd.tmp", "ckpt/.step-00000009.77-0123abcd.tmp/model.safetensors", "decode/.a.txt.77-0123abcd.tmp"):
        put(runs["cut"] / name)
    for name in ("sweep-1.stop", ".sweep-1.json.77-0123abcd.tmp"):
        put(results / "sweeps" / name, "")
    put(results / "ray" / "sweep-1-0" / "experiment_state.json")
    put(results / "ray" / "auth_token")
    put(results / ".import-77-0123abcd" / "x")
    stayed = {item.path for item in collect(results, delete=True).kept} - {item.path for item in collect(results).kept}
    assert stayed == set() and collect(results).items == []
    left = sorted(str(path.relative_to(results)) for path in results.rglob("*") if path.is_file())
    assert not [name for name in left if "tmp" in name or "import" in name or name.endswith(".stop")]
    assert "ray/auth_token" in left and not (results / "ray" / "sweep-1-0").exists()
    assert (runs["cut"] / "ckpt" / "step-00000006").exists() and "sweeps/sweep-1.json" in left


def test_links_are_never_followed(states, tmp_path):
    results, runs, _ = states
    elsewhere = tmp_path / "elsewhere"
    (runs["done"] / "ckpt").rename(elsewhere)
    (runs["done"] / "ckpt").symlink_to(elsewhere)
    found = collect(results, delete=True)
    assert kept(found, runs["done"])["ckpt"] == "link" and (elsewhere / "step-00000003").is_dir()


@pytest.mark.parametrize("point", ["gc_pre_rename", "gc_post_rename", "lock_post_rename"])
def test_killed_at_any_moment_every_folder_is_whole_or_gone_and_calling_again_ends_it(states, forked, point):
    results, runs, _ = states
    before, plan = tree(results), collect(results)
    assert forked(lambda: collect(results, delete=True), f"{point}:kill") == -signal.SIGKILL
    for item in plan.items:
        inside = {name: data for name, data in before.items() if results / name == item.path or item.path in (results / name).parents}
        now = {name for name in tree(results) if name in inside}
        assert now in (set(), set(inside)), f"{item.path} is half there"
    collect(results, delete=True)
    after = tree(results)
    assert after.items() <= before.items() and not any("/ckpt/" in name for name in after if runs["done"].name in name)
    assert [item.path for item in collect(results).items] == []


def test_two_at_once_one_is_refused(states, cli):
    results, _, _ = states
    with RunLock(results / garbage.LOCK):
        code, _, err = cli("gc", "--results", results, "--delete")
    assert code == 3 and "locked by" in err
