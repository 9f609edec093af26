"""What every test may use. The environment is set before anything imports torch, ray or mlflow."""

import contextlib
import hashlib
import io
import json
import math
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

for _name in [name for name in os.environ if name.startswith(("NMT_", "MLFLOW_TRACKING"))]:
    del os.environ[_name]
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "Agg", "COLUMNS": "140"}
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "HF_HUB_OFFLINE": "1"}

# A shell that puts the tests in the background lets Ctrl-C be ignored, and every child would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class UntimedImports(MetaPathFinder):
    """Stops a test's clock (ITIMER_REAL of pytest-timeout) while a large library is imported.

    The import of MLflow takes 40 s on a busy machine, and one that a timeout interrupts would leave half a module to the tests after it.
    """

    LIBRARIES = ("torch", "ray", "mlflow", "pandas", "scipy", "sklearn", "matplotlib")

    def find_spec(self, fullname: str, path=None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.LIBRARIES or threading.current_thread() is not threading.main_thread():
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def untimed(module: ModuleType) -> None:
                left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
                try:
                    load(module)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, left)

            spec.loader.exec_module = untimed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, UntimedImports())

import pytest

from orchestrator.files.documents import sealed
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.paths import ROOT

LONG = ("test_smoke_matrix", "test_growing_cluster", "test_every_variant")
"""Files that take minutes: at the end each would keep one worker while the others have nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture
def chromium() -> str:
    """Its path; skips where it is not installed."""
    path = shutil.which("chromium")
    return path or pytest.skip("chromium is not installed (apt-get install chromium)")


def _sealed(record: dict[str, Any]) -> str:
    return json.dumps(sealed(record, record["key"]))


class FakeResults:
    """Writes sweep files and run directories as an engine does, without training."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keys(self, name: str) -> dict[str, str]:
        return {kind: hashlib.sha256(f"{kind}:{name}".encode()).hexdigest() for kind in ("train", "decode", "score")}

    def row(self, row: str, seed: int = 1, **changes) -> dict[str, Any]:
        model = {"d_model": 64, "encoder": {"num_layers": 2, "connection": {"kind": row}}}
        spec = {"seed": seed, "model": model, "optim": {"peak_lr": 2e-3}}
        about = {"id": f"fake/table1/{row}", "label": f"{row} connection", "seed": seed, "paper": "fake2020", "table": "table1", "row": row}
        return about | {"keys": self.keys(f"{row}:{seed}"), "spec": spec} | changes

    def sweep(self, rows: list[dict[str, Any]], sweep_id: str = "sweep-1", **changes) -> str:
        record = {"sweep_id": sweep_id, "name": "fake sweep", "started": 1_700_000_000.0, "rows": rows} | changes
        SweepFile.of(self.root, sweep_id).write(record)
        return sweep_id

    def run_dir(self, row: Mapping[str, Any]) -> Path:
        return self.root / row["keys"]["train"][:16]

    def spec(self, row: Mapping[str, Any]) -> None:
        self._write(self.run_dir(row) / "spec.yaml", _sealed({"key": row["keys"]["train"], **row["spec"]}))
        os.utime(self.run_dir(row) / "spec.yaml", (1_700_000_100, 1_700_000_100))

    def history(self, row: Mapping[str, Any], first: int, last: int, **extra) -> None:
        """Appends one report a step, `first` to `last`."""
        self.run_dir(row).mkdir(parents=True, exist_ok=True)
        with (self.run_dir(row) / "history.jsonl").open("a") as file:
            for step in range(first, last + 1):
                report = {"step": step, "t": 1_700_000_200.0 + step, "train/loss": 5 / step, "valid": {"bleu": math.sqrt(step)}}
                file.write(json.dumps(report | {"note": "text"} | extra) + "\n")

    def train(self, row: Mapping[str, Any], status: str = "done", steps: int = 20, **extra) -> None:
        about = {"key": row["keys"]["train"], "status": status, "steps": steps, "reason": "", "weights_sha256": "ab" * 32}
        about |= {"params": 123_456, "tokens_per_second": 4321.5, "seconds": 12.5}
        self._write(self.run_dir(row) / "train.json", _sealed(about | extra))
        self._write(self.run_dir(row) / "capsule.json", _sealed({"key": row["keys"]["train"], "python": "3", "git_commit": "c0ffee"}))

    def score(self, row: Mapping[str, Any], bleu: float = 27.64) -> None:
        keys, run = row["keys"], self.run_dir(row)
        text = "a translation\nanother one\n"
        decoding = {"key": keys["decode"], "sentences_per_second": 55.5, "hypotheses_sha256": hashlib.sha256(text.encode()).hexdigest()}
        self._write(run / "decode" / f"{keys['decode'][:16]}.txt", text)
        self._write(run / "decode" / f"{keys['decode'][:16]}.json", _sealed(decoding))
        record = {"key": keys["score"], "bleu": bleu, "signature": "nrefs:1|case:mixed|tok:13a", "chrf": {"score": 51.5}}
        self._write(run / "score" / f"{keys['score'][:16]}.json", _sealed(record))

    def finished(self, row: Mapping[str, Any], steps: int = 20, bleu: float = 27.64) -> None:
        self.spec(row)
        self.history(row, 1, steps)
        self.train(row, steps=steps)
        self.score(row, bleu)

    def typical(self) -> tuple[str, dict[str, dict[str, Any]]]:
        """A sweep with a row in each state -> its id, rows by name."""
        rows = {name: self.row(name) for name in ("baseline", "dense", "linear", "mlrf", "cut", "later")}
        self.finished(rows["baseline"], bleu=27.64)
        self.finished(rows["dense"], bleu=28.42)
        for name, status in (("linear", "stopped"), ("mlrf", "diverged")):
            self.spec(rows[name])
            self.history(rows[name], 1, 5)
            self.train(rows[name], status, steps=5, reason=f"{status} at step 5")
        self.history(rows["mlrf"], 6, 6, **{"train/loss": None})
        self.spec(rows["cut"])
        self.history(rows["cut"], 1, 3)
        return self.sweep(list(rows.values())), rows

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        tmp = path.with_name(path.name + ".tmp")
        tmp.write_text(text)
        tmp.replace(path)


@pytest.fixture
def fake_results(tmp_path) -> FakeResults:
    """An empty results directory and the means to fill it."""
    return FakeResults(tmp_path / "results")


@pytest.fixture(scope="session")
def cli() -> Callable[..., tuple[int, str, str]]:
    """Runs `nmt-ablate` in this process -> (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        from orchestrator.cli.main import run as main

        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
        return code, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]

    return run
