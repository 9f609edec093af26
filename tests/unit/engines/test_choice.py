"""Which engine a sweep takes by itself. No test starts Ray."""

import pytest

from orchestrator.engines import execute
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.options import ExecutionOptions


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Of two cores, without a cluster and a GPU."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(execute, "local_cpus", lambda: 2)
    monkeypatch.setattr(execute.torch.cuda, "device_count", lambda: 0)


def chosen(target: str = "quickstart/fusion/baseline", sets: list[str] | None = None, **options) -> tuple[str, str]:
    found = execute.choose_engine(resolve(target, sets=sets, profile="smoke"), ExecutionOptions(**{"engine": "auto", "jobs": ""} | options))
    return found.engine, found.jobs


def test_one_machine_needs_no_ray_and_one_line_says_so(capsys):
    assert chosen() == ("local", "auto") and "--engine local --jobs auto" in capsys.readouterr().err
    assert [chosen(jobs=jobs) for jobs in ("1", "2")] == [("local", "1"), ("local", "2")], "as it was asked for"
    assert chosen(sweep={"resources": {"gpu": 1.0}}) == ("local", "auto"), "the default"


def test_a_named_engine_stays(capsys):
    assert (chosen(engine="ray"), chosen(engine="local")) == (("ray", "1"), ("local", "1"))
    assert not capsys.readouterr().err


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_cluster_and_several_gpus_are_used(monkeypatch, gpus):
    monkeypatch.setattr(execute.torch.cuda, "device_count", lambda: gpus)
    if not gpus:
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert chosen() == ("ray", "1")


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("quickstart/fusion", {}),  # a row of it has two workers
        ("cluster/smoke.yaml", {}),
        ("quickstart/fusion/baseline", {"workers": 2}),
        ("quickstart/fusion/baseline", {"sets": ["train.threads=3"]}),
        ("quickstart/fusion/baseline", {"sweep": {"resources": {"gpu": "auto"}}}),
    ],
)
def test_what_one_process_a_row_cannot_do_is_ray_s(target, options, repository, monkeypatch):
    monkeypatch.chdir(repository)
    assert chosen(target, **options) == ("ray", "1")
