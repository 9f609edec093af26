"""The driver of the benchmark: runs worker processes one at a time, with interleaved rounds (A,B,B,A)."""

import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

READY_SECONDS, ROUND_SECONDS = 240.0, 240.0


class Lost(Exception):
    """A worker died or hung; the message is shown in its row."""


@dataclass(frozen=True)
class Program:
    """The command of a worker. Rows of the same program share its process and its weights."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    """Why it cannot be run, or ""."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a program with options."""

    name: str
    program: Program
    options: Mapping[str, Any]


@dataclass
class Outcome:
    """The result of one row: its worker's description, its rounds, and the problem that ended them, if any."""

    row: Row
    about: dict[str, Any] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""


class Worker:
    """A worker process that exchanges lines of JSON with the driver."""

    def __init__(self, program: Program, job: Mapping[str, Any]) -> None:
        self.program = program
        self.stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | dict(program.environment)
        self.process = subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.about = self.ask(job, READY_SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, message: Mapping[str, Any], seconds: float = ROUND_SECONDS) -> dict[str, Any]:
        """Sends a message and returns the answer. Raises Lost if the process ends, does not answer within `seconds`, or sends no JSON."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=seconds)
            if not line:
                raise Lost(f"died: {self.last_words()}")
            return dict(json.loads(line))
        except queue.Empty:
            problem = f"no answer within {seconds:.0f} s: {self.last_words()}"
        except OSError:
            problem = f"died: {self.last_words()}"
        except ValueError:
            problem = f"answered no JSON: {line.strip()[:80]}"
        except Lost:
            self.close()
            raise
        self.close()
        raise Lost(problem)

    def last_words(self) -> str:
        """Returns the last line of stderr with any text."""
        self.stderr.seek(0)
        lines = [line.strip() for line in self.stderr.read().splitlines() if re.search(r"\w", line)]
        return lines[-1][:200] if lines else "without a word"

    def close(self) -> None:
        """Stops the process and its children."""
        if self.process.poll() is None:
            try:
                assert self.process.stdin is not None
                self.process.stdin.close()
                self.process.wait(2)
            except (OSError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def compete(
    rows: Sequence[Row],
    job: Mapping[str, Any],
    rounds: int,
    *,
    between: Callable[[], None] = lambda: None,
    progress: Callable[[str, int], None] = lambda text, done: None,
    deadline: float = float("inf"),
) -> list[Outcome]:
    """Starts all workers one after the other, then runs the rounds; each goes through the rows, every second one backwards, after a
    call of `between`.

    progress: called with (text of the current step, number of finished steps of programs + rounds * rows). deadline: a time.time(); no
    round starts that would end later if it took as long as the longest one so far.
    """
    outcomes = [Outcome(row) for row in rows]
    workers: dict[str, Worker] = {}
    done = 0
    try:
        for program in {row.program.name: row.program for row in rows}.values():
            progress(f"{program.name}: set up", done)
            mine = [outcome for outcome in outcomes if outcome.row.program.name == program.name]
            _start(program, job, workers, mine)
            done += 1
        longest = 0.0
        for number in range(rounds):
            started = time.time()
            if started + longest > deadline:
                break
            between()
            for outcome in outcomes if number % 2 == 0 else reversed(outcomes):  # the machine's speed drifts within a round
                progress(f"{outcome.row.name}: round {number + 1}", done)
                if not outcome.problem:
                    _one_round(outcome, workers)
                done += 1
            longest = max(longest, time.time() - started)
        progress("done", done)
    finally:
        for worker in workers.values():
            worker.close()
    return outcomes


def _start(program: Program, job: Mapping[str, Any], workers: dict[str, Worker], outcomes: Sequence[Outcome]) -> None:
    try:
        if program.missing:
            raise Lost(program.missing)
        worker = workers[program.name] = Worker(program, job)
    except (Lost, OSError) as problem:
        for outcome in outcomes:
            outcome.problem = str(problem)
        return
    for outcome in outcomes:
        outcome.about = worker.about
        wanted, offered = outcome.row.options.get("precision", "fp32"), worker.about.get("precisions")
        if offered is not None and wanted not in offered:
            outcome.problem = f"not offered: {wanted}"


def _one_round(outcome: Outcome, workers: Mapping[str, Worker]) -> None:
    worker = workers[outcome.row.program.name]
    if worker.process.poll() is not None:  # it died in another row of the same program
        outcome.problem = f"died: {worker.last_words()}"
        return
    try:
        outcome.rounds.append(worker.ask({"go": dict(outcome.row.options)}))
    except Lost as problem:
        outcome.problem = str(problem)
