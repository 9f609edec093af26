"""A ledger taken to another machine: merged, refused, killed half way."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.transfer import export_packed, import_ledger
from orchestrator.report import looks, noise_floor
from tests.unit.conftest import refused
from tests.unit.lifecycle.life import edit, rows_in, tree


@pytest.fixture(scope="module")
def carried(trained, tmp_path_factory) -> tuple[Path, Path]:
    """(packed folder without weights, the results it is of)."""
    folder = tmp_path_factory.mktemp("packed")
    export_packed(trained[1], folder)
    return folder, trained[1]


@pytest.fixture
def copy(carried, tmp_path) -> Path:
    """The results without anything that is never copied."""
    import_ledger(carried[1], tmp_path / "copy")
    return tmp_path / "copy"


def test_into_an_empty_place_every_table_is_the_same(carried, trained, cli, tmp_path):
    spec, results, _ = trained
    code, out, err = cli("results", "import", carried[0], "--results", tmp_path / "new", "--json")
    found = json.loads(out)
    assert code == 0 and len(found["added"]) == 2 and found["sweeps"] == ["life-cycle"] and "reconcile" in err
    table = [cli("table", spec, "--format", "json", "--results", where)[1] for where in (results, tmp_path / "new")]
    assert table[0] == table[1] and json.loads(table[0]) and "length penalty: in 1 of 1 runs the tuned exponent is the " in table[0]
    here, there = tree(tmp_path / "new"), tree(results)
    assert here.items() <= there.items() and not any("safetensors" in name for name in here)
    names = {path.name for path in (tmp_path / "new").iterdir()} - {"looks.json", "looks.lock", "looks.lock.json"}  # of the two tables
    assert names == {*(key[:16] for key in rows_in(results).values()), "sweeps"}


def test_looks_are_merged_and_a_session_goes_on_or_is_refused(trained, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        shutil.copytree(trained[1], folder)
    looked = [{"time": f"2026-01-0{day}", "runs": {"r": str(day)}, "planned": None} for day in (1, 2, 3)]
    looks.write(there, {"a": [looked[0], looked[1]], "b": [looked[0]]})
    looks.write(here, {"a": [looked[0], looked[2]]})
    lines = [json.dumps({"number": number}) + "\n" for number in (1, 2)]
    (there / "sessions").mkdir()
    (there / "sessions" / "night.jsonl").write_text("".join(lines))
    for folder, key, sd in ((there, "a" * 64, 1), (there, "b" * 64, 1), (here, "b" * 64, 2)):
        noise_floor.save(Ledger(folder), {"family": key, "sd": sd})
    export_packed(there, tmp_path / "packed")
    import_ledger(tmp_path / "packed", here)
    assert sorted(each["sd"] for each in Ledger(here).documents("noise")) == [1, 2], "the noise floor that was measured here stays"
    assert looks.read(here) == {"a": looked, "b": [looked[0]]}
    assert (here / "sessions" / "night.jsonl").read_text() == "".join(lines)
    before = tree(here)
    assert import_ledger(there, here).files == 0 and tree(here) == before
    (here / "sessions" / "night.jsonl").write_text("".join(reversed(lines)))
    assert "sessions/night.jsonl: differs here" in refused(import_ledger, there, here)[0]
    (there / "looks.json").write_text((there / "looks.json").read_text().replace("2026-01-02", "2026-01-09"))
    assert "looks.json: holds no looks, or its digest" in refused(import_ledger, there, here)[0]


def test_what_is_absent_is_added(carried, copy):
    before, key = tree(copy), rows_in(copy)["life/cycle/base"][:16]
    shutil.rmtree(copy / key / "score")
    (copy / key / "train.json").unlink()
    found = import_ledger(carried[1], copy)
    assert found.completed == [key] and tree(copy) == before
    edit(copy / key / "train.json", seconds=1.0)  # trained here too, to the same weights
    again = tree(copy)
    shutil.rmtree(copy / key / "score")
    assert import_ledger(carried[1], copy).completed == [key] and tree(copy) == again


def test_a_conflict_is_refused_with_its_name_and_nothing_is_written(carried, copy):
    key = rows_in(copy)["life/cycle/base"][:16]
    edit(copy / key / "train.json", weights_sha256="f" * 64)
    shutil.rmtree(copy / rows_in(copy)["life/cycle/child"][:16])
    before = tree(copy)
    assert refused(import_ledger, carried[0], copy)[0] == f"{key}: differs here in {key}/train.json" and tree(copy) == before
    assert import_ledger(carried[0], copy, keep=True, dry_run=True).kept == [key] and tree(copy) == before
    (copy / "looks.json").write_text("{", encoding="utf-8")
    assert "looks.json: " in refused(export_packed, copy, copy.parent / "p")[0] and not (copy.parent / "p").exists(), "import would refuse"


def test_a_damaged_text_leaves_its_run_out_of_an_export(copy, cli):
    whole, damaged = sorted(path.parent.name for path in copy.glob("*/history.jsonl"))
    (copy / damaged / "history.jsonl").write_bytes(b"\xff\n")
    code, out, err = cli("results", "export", copy.parent / "p", "--results", copy, "--json")
    assert code == 1 and f"left out: {damaged}/history.jsonl: is not UTF-8 (byte 0)\n" in err and json.loads(out)["left_out"] == [damaged]
    assert import_ledger(copy.parent / "p", copy.parent / "there").added == [whole]


def test_translations_that_are_missing_or_were_changed_are_refused_or_told(copy, capsys):
    changed, missing = sorted(copy.glob("*/decode/*.txt"))
    changed.write_text("another\n", encoding="utf-8")
    missing.unlink()
    lines = refused(export_packed, copy, copy.parent / "p")
    assert [line.split(": ")[1] for line in lines] == [str(path.relative_to(copy)) for path in (changed, missing)]
    import_ledger(copy, copy.parent / "there")
    assert capsys.readouterr().err.splitlines() == [f"warning: {line}" for line in lines]


def test_a_run_that_is_at_work_is_left_alone(carried, copy, cli):
    key = rows_in(copy)["life/cycle/base"][:16]
    (copy / key / "train.json").unlink()
    before = tree(copy)
    with RunLock(copy / key / "lock"):
        code, _, err = cli("results", "import", carried[0], "--results", copy)
        assert code == 3 and "nothing was imported" in err and tree(copy) == before
        code, out, _ = cli("results", "export", copy.parent / "part", "--results", copy, "--json")
    assert code == 0 and json.loads(out)["left_out"] == [key]


@pytest.mark.parametrize("point", ["import_file", "import_pre_rename", "import_post_rename"])
@pytest.mark.parametrize("damaged", [False, True], ids=["empty", "partly there"])
def test_killed_half_way_every_run_is_whole_and_calling_again_does_the_rest(carried, copy, forked, tmp_path, point, damaged):
    want = tree(copy)
    target = copy if damaged else tmp_path / "new"
    if damaged:
        key = rows_in(copy)["life/cycle/base"][:16]
        for name in ("train.json", "capsule.json"):
            (copy / key / name).unlink()
        shutil.rmtree(copy / key / "weights")
    assert forked(lambda: import_ledger(carried[1], target), f"{point}:kill") == -signal.SIGKILL
    after = {name: data for name, data in tree(target).items() if not name.startswith(".import-")}
    assert after.items() <= want.items()
    for run in {name.partition("/")[0] for name in after} - {"sweeps"}:
        if (target / run / "train.json").exists():
            assert {name for name in after if name.startswith(run)} == {name for name in want if name.startswith(run)}
    import_ledger(carried[1], target)
    garbage.collect(target, delete=True)
    assert tree(target) == want and not list(target.glob(".import-*"))
