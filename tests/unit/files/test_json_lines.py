import json
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.faults import fault
from orchestrator.files.json_lines import Journal, JsonLines, executed_steps, read_lines


def test_counts_every_execution(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert executed_steps(path) == 0
    for steps in ((1, 2, 3), (2, 3, 4)):
        with closing(Journal(path)) as journal:
            for step in steps:
                journal.step(step)
    assert executed_steps(path) == 6
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 2, 3, 4]
    assert {line["pid"] for line in lines} == {os.getpid()} and set(lines[0]) == {"step", "pid", "t"}


def test_lines_are_there_after_sigkill(tmp_path, forked):
    path = tmp_path / "journal.jsonl"

    def work() -> None:
        journal = Journal(path)
        for step in range(1, 9):
            fault("step", step)
            journal.step(step)

    assert forked(work, "step@6:kill") == -signal.SIGKILL
    assert executed_steps(path) == 5


@pytest.mark.parametrize("torn", [b'{"step": 3, "pi', b"\xff\xfe", b"3"])
def test_torn_last_line_is_skipped_and_not_glued(tmp_path, torn):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"step":1}\n{"step":2}\n' + torn)
    assert executed_steps(path) == 2
    with closing(Journal(path)) as journal:
        journal.step(3)
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3]


def test_lines_of_two_processes_do_not_mix(tmp_path, forked):
    path = tmp_path / "lines.jsonl"
    ours = JsonLines(path)

    def work() -> None:
        with closing(JsonLines(path)) as lines:
            for step in range(200):
                lines.append({"step": step, "who": "child" * 20})

    ours.append({"step": -1})
    assert forked(work) == 0
    ours.append({"step": -2})
    assert executed_steps(path) == 202


def test_numbers_that_json_has_not(tmp_path):
    with closing(JsonLines(tmp_path / "lines.jsonl")) as lines:
        lines.append({"step": 1, "nll": float("nan"), "rate": float("inf"), "pair": (1, 2)})
    assert list(read_lines(tmp_path / "lines.jsonl")) == [{"step": 1, "nll": None, "rate": None, "pair": [1, 2]}]


def test_full_disk_names_the_file():
    with closing(JsonLines(Path("/dev/full"))) as lines, pytest.raises(OSError, match="/dev/full"):
        lines.append({"step": 1})
