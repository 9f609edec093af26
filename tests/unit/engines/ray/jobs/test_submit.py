"""`submit` before it reaches a cluster, and where it reaches none."""

import os
import re
import shlex
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cli.commands import submit
from orchestrator.cli.commands.submit import make_job
from orchestrator.cli.run import sweep
from orchestrator.engines.ray.jobs.upload import MIB
from orchestrator.errors import UserError
from tests.unit.conftest import refused

SMOKE = "cluster/smoke.yaml"
TOKEN = "c0ffee" * 8


@pytest.fixture
def uploading(repository):
    if not (repository / ".git").exists():
        pytest.skip("no git here")


@pytest.fixture(autouse=True)
def here(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)


def test_the_name_is_the_sweep_s_meaning():
    first = make_job(sweep, [SMOKE])
    assert re.fullmatch(r"sweep-[0-9a-f]{16}", first.id) and first.id == make_job(sweep, [str(Path(SMOKE).resolve()), "--json"]).id
    others = [["--seeds", "1,2"], ["--set", "train.max_steps=50"], ["--profile", "smoke"], ["--workers", "2"]]
    elsewhere = (make_job(sweep, [SMOKE], {name: "/elsewhere"}).id for name in ("results", "data_dir"))
    assert len({first.id, *elsewhere, *(make_job(sweep, [*more, SMOKE]).id for more in others)}) == 7


def test_a_search_is_part_of_the_meaning_and_its_file_travels(tmp_path, repository, monkeypatch):
    file, ids = tmp_path / "search.yaml", set()
    for trials in (2, 3):
        space = "{optim.schedule.lr: {factor: {choice: [1.0, 2.0]}}}"
        file.write_text(f"tune: {{trials: {trials}, space: {space}, seeds: {{search: [9], judge: [1]}}}}\n")
        job = make_job(sweep, ["--tune-with", str(file), SMOKE])
        assert file in job.needed and job.runs == 2 * (trials + 1), "of both rows"
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(tmp_path)
            assert job == replace(make_job(sweep, ["--tune-with=search.yaml", str(repository / SMOKE)]), needed=job.needed)
        assert shlex.split(job.command)[-1] == os.path.relpath(file, repository), "as the job finds it"
        ids.add(job.id)
    assert len(ids) == 2
    monkeypatch.chdir(tmp_path)
    words = ["--tune-with", "search_spaces/tune/mini.yaml"]
    assert shlex.split(make_job(sweep, [*words, str(repository / SMOKE)]).command)[-2:] == words, "the product's"
    with pytest.raises(UserError, match="found no section `tune`"):
        make_job(sweep, ["--tune", str(repository / SMOKE)])


def test_the_file_of_a_profile_travels_with_those_that_it_extends(tmp_path, repository, monkeypatch):
    (tmp_path / "base.yaml").write_text("extends: smoke\n")
    (tmp_path / "own.yaml").write_text("extends: base.yaml\n")
    job = make_job(sweep, ["--profile", str(tmp_path / "own.yaml"), SMOKE])
    assert {tmp_path / "base.yaml", tmp_path / "own.yaml"} <= job.needed
    assert f"--profile {os.path.relpath(tmp_path / 'own.yaml', repository)}" in job.command
    monkeypatch.chdir(tmp_path)
    assert make_job(sweep, ["--profile", "own.yaml", str(repository / SMOKE)]).id == job.id


def test_the_command_line_of_the_job(tmp_path, repository):
    job = make_job(sweep, ["--seeds", "1,2", "--set", "data.corpus=toy-smoke", SMOKE, "--no-tracking"], {"results": "/mnt/my results"})
    assert shlex.split(job.command) == f"bash cluster/sweep.sh {SMOKE} --seeds 1,2 --set data.corpus=toy-smoke --no-tracking".split()
    assert dict(job.env) == {"NMT_RESULTS": "/mnt/my results"} and job.runs == 4
    assert repository / SMOKE in {path.resolve() for path in job.needed}
    same = shlex.split(make_job(sweep, ["--tracking-uri", SMOKE, "--no-tracking", SMOKE]).command)
    assert same == ["bash", "cluster/sweep.sh", SMOKE, "--tracking-uri", SMOKE, "--no-tracking"], "a value may equal the target"


def test_relative_folders_are_refused_all_at_once():
    lines = refused(make_job, sweep, [SMOKE], {"results": "results", "data_dir": "data"})
    assert len(lines) == 2 and "every node sees" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cluster/smok.yaml"], "did you mean smoke.yaml?"),
        ([SMOKE, "--sede", "1"], "No such option"),
        ([SMOKE, "--seeds", "one"], "--seeds one: expected whole numbers"),
        ([SMOKE, "--set", "train.max_stepz=3"], "max_steps"),
        ([SMOKE, "--address", "http://me:pw@host"], "found a user or password in it"),
        ([SMOKE, "--address", "ftp://host"], "expected the dashboard"),
        (["--attach", "sweep-1", SMOKE], "expected nothing else"),
        ([SMOKE, "--resources", "gpu=2.5,weight=3"], "gpu is 2.5; expected auto, a part"),
    ],
)
def test_bad_input_ends_here(cli, arguments, text):
    code, out, err = cli("submit", *arguments)
    assert code == 2 and text in err and "Traceback" not in err and TOKEN not in out + err and "me:pw" not in err


def test_no_cluster_is_one_line(cli):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        code, _, err = cli("submit", SMOKE, "--address", f"127.0.0.1:{closed.getsockname()[1]}")
    assert code == 2 and len(err.splitlines()) == 1 and "nothing answers there" in err and TOKEN not in err


def test_a_dry_run_needs_no_cluster_and_tells_what_is_uploaded(cli, monkeypatch, uploading):
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nowhere")
    code, out, _ = cli("submit", SMOKE, "--dry-run")
    assert code == 0 and "bash cluster/sweep.sh cluster/smoke.yaml" in out
    (told,) = re.findall(r"upload:  (\d+ files, .* MiB)", out)
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    sizes: list[int] = []
    size = lambda folder: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())  # noqa: E731
    start = lambda *, runtime_env, **more: sizes.append(size(Path(runtime_env["working_dir"])))  # noqa: E731
    monkeypatch.setattr(submit.api, "connect", lambda *_: SimpleNamespace(list_jobs=list, submit_job=start))
    code, _, err = cli("submit", SMOKE, "--no-wait")
    assert code == 0 and f"uploading {told}\n" in err and sizes[0] < 10 * MIB


def test_a_bucket_named_here_is_opened_there(cli, monkeypatch, uploading):
    """Neither the option nor this machine's environment makes this process look for it."""
    monkeypatch.setenv("NMT_RESULTS", "s3://nowhere/here")
    code, out, err = cli("submit", SMOKE, "--dry-run", "--results", "s3://nowhere/there")
    assert code == 0 and "NMT_RESULTS=s3://nowhere/there" in out and "s3://nowhere/here" not in out, err
