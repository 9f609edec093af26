"""Bad options and arguments: exit 2, one line that says what, where and what was expected, and nothing is started."""

import os
import re

import typer

from orchestrator.cli import main
from orchestrator.cli.main import run
from orchestrator.ledger import object_store

NOT_FOLDERS = {
    "": "names nothing; expected a folder",
    "file": "found a file; expected a folder",
    "file/sub": "found a file at file; expected a folder",
    "dangling": "found a link to absent, which is not there; expected a folder",
    "loop": "found a link that leads back to itself; expected a folder",
    "loop/sub": "found a link that leads back to itself at loop; expected a folder",
    "/dev/null": "found a device; expected a folder",
}
FOLDERS = [
    *(["run", "spec.yaml", option] for option in ("--results", "--data-dir", "--cache-dir")),
    ["sweep", "spec.yaml", "--engine", "local", "--results"],
    ["analyse", "spec.yaml", "--kind", "length", "--out"],
    ["export", "spec.yaml", "--results", "results", "--to"],
    ["repro", "spec.yaml", "--into"],
    ["results", "import", "full", "--results"],
    ["plan", "spec.yaml", "--probe", "--results"],
    *(["table", "spec.yaml", option] for option in ("--results", "--data-dir")),
    *([command, "--results"] for command in ("status", "gc", "reconcile", "ui")),
]
CASES = [
    *(([*command, "file"], [f"{command[-1]} file: found a file; expected a folder"]) for command in FOLDERS),
    *((["status", "--results", value], ["--results ", message]) for value, message in NOT_FOLDERS.items()),
    (["run", "spec.yaml", "--results", "/proc/nmt"], ["--results /proc/nmt: cannot be made", "expected a folder that may be written"]),
    *(([*command, "--results", "locked"], ["--results locked: may not be written"]) for command in (["gc", "--delete"], ["reconcile"])),
    (["run", "spec.yaml", "--results", "s3:/bucket/x"], ["s3:/bucket/x", "as in s3://bucket/prefix"]),
    (["run", "spec.yaml", "--results", "file://"], ["names nothing"]),
    (["status", "--results", "n" * 300], ["File name too long"]),
    (["export", "spec.yaml", "--results", "results", "--to", "full"], ["--to full: is there already; expected a new or empty folder"]),
    (["results", "export", "file/x", "--results", "results"], ["FOLDER file/x: cannot be made"]),
    (["results", "import", "full"], ["full: holds no runs; expected a results folder"]),
    (["plan", "n" * 300], ["File name too long"]),
    (["table", "spec.yaml", "--baseline", "oen"], ["no such row of demo/small; expected one, the only name; did you mean one?"]),
    (["run", "spec.yaml", "--seed", "many"], ["--seed", "found many", "nmt-ablate run --help"]),
    (["run", "spec.yaml", "--sed", "1"], ["No such option: --sed", "--seed"]),
    (["run", "spec.yaml", "--seed", "1", "--seed", "2"], ["--seed: found twice; expected one value"]),
    (["submit", "spec.yaml", "--seeds", "1", "--seeds", "2"], ["--seeds: found twice; expected one value"]),
    (["data", "get", "toy-smoke", "--data-dir", "a", "--data-dir", "b"], ["--data-dir: found twice; expected one value"]),
    (["data", "prepare", "toy-smoke", "--set", "data.max_length=9"], ["toy-smoke: found a corpus, with --set", "a row or a table"]),
    (["run"], ["Missing argument", "nmt-ablate run --help"]),
    (["bogus"], ["No such command 'bogus'"]),
    (["show", "\x1b]0;x\x07"], [r"\x1b]0;x\x07"]),
    (["run", "spec.yaml", "--set", "model.d_model=\u202ex"], [r"\u202e"]),
]


def test_every_bad_option_is_one_line_before_anything_starts(spec, tmp_path, capfd, monkeypatch) -> None:
    spec("  one: {}\n")
    (tmp_path / "file").write_text("x")
    for name in ("full/x", "results/sweeps", "locked"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(object_store, "_mirrors", {})
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "locked")  # root may write everywhere
    before = sorted(path.name for path in tmp_path.rglob("*"))
    monkeypatch.setattr(main, "app", typer.main.get_command(main.app))  # built once
    wrong = []
    for arguments, expected in CASES:
        code = run(arguments)
        out, err = capfd.readouterr()
        line = err.removesuffix("\n")
        good = code == 2 and out == "" and line.isprintable() and line.startswith("error: ") and all(text in line for text in expected)
        if not good or re.search(r"\w(Error|Exception)\b|Errno|Traceback", line):
            wrong.append((arguments, code, out, err))
    assert not wrong, wrong
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
