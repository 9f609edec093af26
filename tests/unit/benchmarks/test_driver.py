"""The driver with workers that only pretend: protocol, order of the rounds, workers that die, hang or talk nonsense."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from driver import Lost, Program, Row, Worker, compete

PEERS = Path(__file__).resolve().parents[3] / "benchmarks" / "peers"

FAKE = """
import sys, time
sys.path.insert(0, {peers!r})
from protocol import serve

class Fake:
    def __init__(self, job):
        print("a library talks on stdout")
        self.job, self.about = job, {{"version": "1", "params": 7, "pid_free": True}}
        if {bad_start!r}:
            raise RuntimeError({bad_start!r})
    def round(self, **options):
        with open(self.job["log"], "a") as log:
            log.write({name!r} + str(options.get("precision", "")) + "\\n")
        if options.get("dies"):
            sys.stderr.write("Traceback\\nMemoryError: too large\\n")
            sys.exit(3)
        if options.get("hangs"):
            time.sleep(60)
        return {{"seconds": 0.5, "tokens": 100 * {speed}, "loss": 2.0}}

serve(Fake)
"""


@pytest.fixture
def fake(tmp_path):
    def make(name: str, speed: int = 1, bad_start: str = "") -> Program:
        script = tmp_path / f"{name}.py"
        script.write_text(FAKE.format(peers=str(PEERS), name=name, speed=speed, bad_start=bad_start))
        return Program(name, (sys.executable, "-P", str(script)))

    return make


@pytest.fixture
def job(tmp_path):
    return {"log": str(tmp_path / "log")}


def order(job) -> list[str]:
    return Path(job["log"]).read_text().split()


def test_answers_are_json_although_libraries_print(fake, job) -> None:
    worker = Worker(fake("a"), job)
    assert worker.about["params"] == 7
    assert worker.ask({"go": {}}) == {"seconds": 0.5, "tokens": 100, "loss": 2.0}
    worker.close()
    assert worker.process.returncode == 0


def test_rounds_interleave_and_rows_of_a_program_share_its_process(fake, job) -> None:
    a, b = fake("a"), fake("b", speed=2)
    rows = [Row("a", a, {"precision": "1"}), Row("a too", a, {"precision": "2"}), Row("b", b, {})]
    between, steps = [], []
    outcomes = compete(
        rows,
        job,
        3,
        between=lambda: between.append(len(order(job))) if Path(job["log"]).exists() else None,
        progress=lambda t, n: steps.append(n),
    )
    assert order(job) == ["a1", "a2", "b"] * 3
    assert [len(o.rounds) for o in outcomes] == [3, 3, 3]
    assert between == [3, 6], "the machine is measured between the rounds"
    assert steps == sorted(steps) and steps[-1] == 2 + 3 * 3


def test_one_that_dies_says_why_and_the_rest_goes_on(fake, job) -> None:
    a, b, c = fake("a"), fake("b"), fake("c", bad_start="no such model")
    missing = Program("d", ("/nonexistent",), missing="not installed: make peers")
    rows = [Row("a", a, {}), Row("b", b, {"dies": True}), Row("b too", b, {}), Row("c", c, {}), Row("d", missing, {})]
    outcomes = {o.row.name: o for o in compete(rows, job, 2)}
    assert len(outcomes["a"].rounds) == 2 and not outcomes["a"].problem
    assert outcomes["b"].problem == "died: MemoryError: too large" == outcomes["b too"].problem
    assert outcomes["c"].problem == "died: RuntimeError: no such model"
    assert outcomes["d"].problem == "not installed: make peers"


@pytest.mark.slow
def test_one_that_hangs_is_ended(fake, job) -> None:
    worker = Worker(fake("a"), job)
    with pytest.raises(Lost, match="no answer within 0 s"):
        worker.ask({"go": {"hangs": True}}, seconds=0.2)
    assert worker.process.poll() is not None


def test_a_precision_that_is_not_offered_is_not_asked_for(tmp_path, job) -> None:
    script = tmp_path / "some.py"
    ready = json.dumps({"ready": True, "precisions": ["fp32"]})
    answer = json.dumps({"seconds": 1.0, "tokens": 1})
    script.write_text(
        f"input(); print('''{ready}''', flush=True)\nwhile True:\n    assert 'int8' not in input()\n    print('''{answer}''', flush=True)"
    )
    program = Program("s", (sys.executable, str(script)))
    offered, other = compete([Row("s", program, {"precision": "fp32"}), Row("s", program, {"precision": "int8"})], job, 1)
    assert len(offered.rounds) == 1
    assert other.problem == "not offered: int8" and not other.rounds
