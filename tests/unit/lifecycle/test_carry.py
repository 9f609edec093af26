"""A ledger taken to another machine: merged, refused, killed half way; archives made to hurt."""

import hashlib
import io
import json
import shutil
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.files.documents import sealed
from orchestrator.ledger.run_lock import RunLock
from orchestrator.lifecycle.transfer import FORMAT, export_ledger, import_ledger
from orchestrator.report import looks
from tests.unit.lifecycle.life import rows_in, tree


@pytest.fixture(scope="module")
def carried(trained, tmp_path_factory) -> tuple[Path, Path, Path]:
    """(archive without weights, archive with weights, the results they are of)."""
    folder = tmp_path_factory.mktemp("archives")
    for name, weights in (("small.tar", False), ("large.tar", True)):
        export_ledger(trained[1], folder / name, weights=weights)
    return folder / "small.tar", folder / "large.tar", trained[1]


@pytest.fixture
def copy(carried, tmp_path) -> Path:
    """The results without anything that an archive never holds."""
    import_ledger(carried[1], tmp_path / "copy")
    return tmp_path / "copy"


def edit(path: Path, **changes: object) -> None:
    document = json.loads(path.read_text())
    key = document["key"]
    path.write_text(json.dumps(sealed({name: value for name, value in document.items() if name != "digest"} | changes, key)))


def test_into_an_empty_place_every_table_is_the_same(carried, trained, cli, tmp_path):
    spec, results, _ = trained
    code, out, err = cli("results", "import", carried[0], "--results", tmp_path / "new", "--json")
    found = json.loads(out)
    assert code == 0 and len(found["added"]) == 2 and found["sweeps"] == ["life-cycle"] and "reconcile" in err
    table = [cli("table", spec, "--format", "json", "--results", where)[1] for where in (results, tmp_path / "new")]
    assert table[0] == table[1] and json.loads(table[0])
    here, there = tree(tmp_path / "new"), tree(results)
    assert here.items() <= there.items() and not any("safetensors" in name for name in here)
    names = {path.name for path in (tmp_path / "new").iterdir()} - {"looks.json", "looks.lock", "looks.lock.json"}  # of the two tables
    assert names == {*(key[:16] for key in rows_in(results).values()), "sweeps"}


def test_looks_are_merged_and_a_session_goes_on_or_is_refused(trained, tmp_path):
    here, there, tar = tmp_path / "here", tmp_path / "there", tmp_path / "a.tar"
    for folder in (here, there):
        shutil.copytree(trained[1], folder)
    looked = [{"time": f"2026-01-0{day}", "runs": {"r": str(day)}, "planned": None} for day in (1, 2, 3)]
    looks.write(there, {"a": [looked[0], looked[1]], "b": [looked[0]]})
    looks.write(here, {"a": [looked[0], looked[2]]})
    lines = [json.dumps({"number": number}) + "\n" for number in (1, 2)]
    (there / "sessions").mkdir()
    (there / "sessions" / "night.jsonl").write_text("".join(lines))
    export_ledger(there, tar)
    import_ledger(tar, here)
    assert looks.read(here) == {"a": looked, "b": [looked[0]]}
    assert (here / "sessions" / "night.jsonl").read_text() == "".join(lines)
    before = tree(here)
    assert import_ledger(tar, here).files == 0 and tree(here) == before
    (here / "sessions" / "night.jsonl").write_text("".join(reversed(lines)))
    with pytest.raises(UserError, match=r"sessions/night\.jsonl: differs here"):
        import_ledger(tar, here)
    (there / "looks.json").write_text((there / "looks.json").read_text().replace("2026-01-02", "2026-01-09"))
    export_ledger(there, tmp_path / "b.tar")
    with pytest.raises(UserError, match=r"looks\.json: holds no looks, or its digest"):
        import_ledger(tmp_path / "b.tar", here)


def test_with_weights_it_translates_there(carried, trained, tmp_path):
    from orchestrator.ledger.run_files import Store

    import_ledger(carried[1], tmp_path / "new")
    for key in rows_in(trained[1]).values():
        ours, theirs = (Store(root / key[:16], key).weights("last") for root in (trained[1], tmp_path / "new"))
        assert all((ours[name] == theirs[name]).all() for name in ours)
    assert not list((tmp_path / "new").glob("*/ckpt")), "a finished run needs none"


def test_again_it_changes_nothing(carried, copy):
    before = tree(copy)
    found = import_ledger(carried[1], copy)
    assert (len(found.same), found.files, found.added, found.sweeps) == (2, 0, [], []) and tree(copy) == before


def test_what_is_absent_is_added(carried, copy):
    before, key = tree(copy), rows_in(copy)["life/cycle/base"][:16]
    shutil.rmtree(copy / key / "score")
    (copy / key / "train.json").unlink()
    found = import_ledger(carried[1], copy)
    assert found.completed == [key] and tree(copy) == before


def test_a_conflict_is_refused_with_its_name_and_nothing_is_written(carried, copy):
    key = rows_in(copy)["life/cycle/base"][:16]
    edit(copy / key / "train.json", weights_sha256="f" * 64)
    shutil.rmtree(copy / rows_in(copy)["life/cycle/child"][:16])
    before = tree(copy)
    with pytest.raises(UserError) as error:
        import_ledger(carried[0], copy)
    assert error.value.lines[0] == f"{key}: differs here in {key}/train.json" and tree(copy) == before
    assert import_ledger(carried[0], copy, conflicts="keep", dry_run=True).kept == [key] and tree(copy) == before


def test_a_run_that_is_at_work_is_left_alone(carried, copy, cli):
    key = rows_in(copy)["life/cycle/base"][:16]
    (copy / key / "train.json").unlink()
    before = tree(copy)
    with RunLock(copy / key / "lock"):
        code, _, err = cli("results", "import", carried[0], "--results", copy)
        assert code == 3 and "nothing was imported" in err and tree(copy) == before
        code, out, _ = cli("results", "export", copy.parent / "part.tar", "--results", copy, "--json")
    assert code == 0 and json.loads(out)["left_out"] == [key]


@pytest.mark.parametrize("point", ["import_member", "import_pre_rename", "import_post_rename"])
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
    from orchestrator.lifecycle import collect, garbage

    collect.collect(target, garbage.find(target))
    assert tree(target) == want and not list(target.glob(".import-*"))


def test_export_is_the_same_bytes_each_time_and_never_half_there(trained, tmp_path, forked):
    _, results, _ = trained
    for name in ("a.tar", "b.tar"):
        export_ledger(results, tmp_path / name, weights=True)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    assert forked(lambda: export_ledger(results, tmp_path / "c.tar"), "archive_member:kill") == -signal.SIGKILL
    assert not (tmp_path / "c.tar").exists()
    with pytest.raises(UserError, match="is there already"):
        export_ledger(results, tmp_path / "a.tar")
    with pytest.raises(UserError, match="did you mean life-cycle"):
        export_ledger(results, tmp_path / "d.tar", only=["life-cycl"])


# ------------------------------------------------------------ archives that hurt


def forged(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], files: dict[str, bytes] | None = None, **about: object) -> Path:
    """An archive with a manifest of `files` and then any members."""
    entries = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in (files or {}).items()}
    data = json.dumps({"format": FORMAT, "files": entries} | about).encode()
    with tarfile.open(path, "w") as tar:
        for info, content in [(member("manifest.json", data)), *members]:
            tar.addfile(info, io.BytesIO(content))
    return path


def member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = (len(data) if kind == tarfile.REGTYPE else 0), kind, link
    return info, data


RUN = "0123456789abcdef"
NAME = f"{RUN}/train.json"


NAMES = [
    "/etc/passwd", "../x.json", f"{RUN}/../../x.json", f"{RUN}/lock", f"{RUN}/lock.json", "x.json", f"{RUN}/weights/evil.pkl",
    "sweeps/../x.json", "sweeps/.hidden.json", "sweeps/a.lock.json", f"{RUN}/decode/../train.json", f"{RUN}\\train.json",
    f"{RUN}/train.json\n", "", "manifest.json", f"{RUN}/ckpt/step-00000001/../../x.json", f"ray/{RUN}/x.json", "auth_token",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_none_of_a_ledger_are_refused(tmp_path, name):
    path = forged(tmp_path / "a.tar", [member(name)], {name: b"x"})
    with pytest.raises(UserError, match="no file of a ledger"):
        import_ledger(path, tmp_path / "results")
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"], "nothing was written anywhere"


def holding(path: Path, name: str, data: bytes) -> Path:
    return forged(path, [member(name, data)], {name: data})


def claiming(path: Path, name: str, size: int) -> Path:
    about = {"format": FORMAT, "files": {name: {"bytes": size, "sha256": "0" * 64}}}
    return _plain(path, [member("manifest.json", json.dumps(about).encode())])


HURTFUL: dict[str, Callable[[Path], Path]] = {
    "an absolute path beside the manifest": lambda p: forged(p, [member("/tmp/x")]),
    "a path upwards beside the manifest": lambda p: forged(p, [member("../x")]),
    "a symlink": lambda p: forged(p, [member(NAME, kind=tarfile.SYMTYPE, link="/etc/passwd")], {NAME: b"x"}),
    "a symlink for the folder": lambda p: forged(p, [member(RUN, kind=tarfile.SYMTYPE, link="/tmp"), member(NAME)], {NAME: b"x"}),
    "a hard link": lambda p: forged(p, [member(NAME, kind=tarfile.LNKTYPE, link="manifest.json")], {NAME: b"x"}),
    "a device": lambda p: forged(p, [member(NAME, kind=tarfile.CHRTYPE)], {NAME: b"x"}),
    "a fifo": lambda p: forged(p, [member(NAME, kind=tarfile.FIFOTYPE)], {NAME: b"x"}),
    "a folder": lambda p: forged(p, [member(NAME, kind=tarfile.DIRTYPE)], {NAME: b"x"}),
    "twice": lambda p: forged(p, [member(NAME), member(NAME)], {NAME: b"x"}),
    "another size": lambda p: forged(p, [member(NAME, b"xx")], {NAME: b"x"}),
    "another content": lambda p: forged(p, [member(NAME, b"y")], {NAME: b"x"}),
    "missing": lambda p: forged(p, [], {NAME: b"x"}),
    "no record": lambda p: forged(p, [member(NAME, b"[]")], {NAME: b"[]"}),
    "deep JSON": lambda p: forged(p, [member(NAME, b"[" * 100_000)], {NAME: b"[" * 100_000}),
    "another run's record": lambda p: holding(p, NAME, json.dumps({"key": "f" * 64}).encode()),
    "a spec with a tag": lambda p: holding(p, f"{RUN}/spec.yaml", b"key: !!python/name:os.system\n"),
    "a spec with aliases": lambda p: holding(p, f"{RUN}/spec.yaml", b"a: &a [x]\nb: [*a]\n"),
    "another format": lambda p: forged(p, [], format="nmt-ablate ledger 9"),
    "no manifest": lambda p: _plain(p, [member(NAME)]),
    "a manifest that is a list": lambda p: _plain(p, [member("manifest.json", b"[]")]),
    "a text of many gigabytes": lambda p: claiming(p, NAME, 10**10),
    "a header that claims 8 GB": lambda p: _huge_header(p),
    "a sparse file": lambda p: _sparse(p),
    "compressed": lambda p: _gzip(p),
    "text": lambda p: _bytes(p, b"hello" * 1000),
    "empty": lambda p: _bytes(p, b""),
}  # fmt: skip


def _plain(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def _huge_header(path: Path) -> Path:
    forged(path, [])
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 8 * 10**9
    data = path.read_bytes().rstrip(b"\0")
    whole = data + bytes(-len(data) % 512)
    return _bytes(path, whole + info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def _sparse(path: Path) -> Path:
    info, _ = member(NAME, b"")
    info.pax_headers = {"GNU.sparse.size": str(10**12), "GNU.sparse.map": "0,0"}
    return forged(path, [(info, b"")], {NAME: b""})


def _gzip(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        info, data = member("manifest.json", bytes(10**6))
        tar.addfile(info, io.BytesIO(data))
    return path


def _bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("how", HURTFUL)
def test_an_archive_made_to_hurt_is_refused_in_one_line_and_leaves_nothing(cli, tmp_path, how):
    path = HURTFUL[how](tmp_path / "a.tar")
    code, out, err = cli("results", "import", path, "--results", tmp_path / "results")
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and err.startswith("error: "), err
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]


def test_one_flipped_bit_anywhere_is_found(carried, tmp_path):
    data = bytearray(carried[1].read_bytes())
    with tarfile.open(carried[1]) as tar:
        places = [info.offset_data + info.size // 2 for info in tar.getmembers() if info.size > 20]
    for place in places[:: max(1, len(places) // 8)]:
        data[place] ^= 4
        with pytest.raises(UserError):
            import_ledger(_bytes(tmp_path / "bad.tar", bytes(data)), tmp_path / "results")
        data[place] ^= 4
    assert not (tmp_path / "results").exists()
