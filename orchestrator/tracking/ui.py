"""The MLflow UI on 127.0.0.1, which ends with this process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import TracebackType
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger.sweep_files import paths
from orchestrator.tracking import views
from orchestrator.tracking.environment import ENVIRONMENT, default_uri, is_server, redact, sqlite_path, with_driver
from orchestrator.tracking.location import artifacts_of, prepare_database
from orchestrator.tracking.overview import row_names
from orchestrator.tracking.source import read_sweep
from orchestrator.tracking.store import EXPERIMENT
from orchestrator.tracking.sweeps import reconcile

HOST = "127.0.0.1"
APP = "nmt-ablate"
"""Name of `ui_app` as MLflow finds it."""
COLOURS = "NMT_ABLATE_UI_COLOURS"
"""Environment variable with the colours of rows, as JSON, for `ui_app`."""
MAX_COLOURS, MAX_SWEEPS = 500, 3
START_LIMIT = 120.0
"""Seconds within which the server must answer; it takes about 13 on two cores."""

_WATCHED = """
import os, signal, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
sys.stdin.buffer.read()   # ends when the parent does, however it ends
os.killpg(0, signal.SIGKILL)
"""
"""Leader of the server's process group. The server starts workers that would survive a signal to the server alone."""


def runs_page(server: str, experiment: str, view: str = views.ALL) -> str:
    """Address of the list of runs in one of `views`. Without `workflowType` the UI shows its GenAI side."""
    return f"{server}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={view}"


class UiServer:
    """A running server. It stops at the end of `with` or of this process, even by kill -9."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.url, self.process, self.log = url, process, log

    @property
    def page(self) -> str:
        """Address of the list of runs."""
        return self._pages()[0]

    def pages_of_sweeps(self) -> list[tuple[str, str]]:
        """Names of the last sweeps and addresses of their charts, newest first."""
        return self._pages()[1]

    def _pages(self) -> tuple[str, list[tuple[str, str]]]:
        query = urllib.parse.urlencode({"experiment_name": EXPERIMENT})
        with (
            contextlib.suppress(OSError, ValueError, KeyError),
            _open(f"{self.url}/api/2.0/mlflow/experiments/get-by-name?{query}") as answer,
        ):
            experiment = json.load(answer)["experiment"]
            kept = views.newest({tag["key"]: tag["value"] for tag in experiment.get("tags", [])}, MAX_SWEEPS)
            pages = [(name, runs_page(self.url, experiment["experiment_id"], key) + "&compareRunsMode=CHART") for key, name in kept]
            return runs_page(self.url, experiment["experiment_id"]), pages
        return self.url, []

    def stop(self) -> None:
        """Kills the server and its workers."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> UiServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def start_ui(results: Path, port: int = 5000, uri: str | None = None) -> UiServer:
    """Starts the UI of `results` on 127.0.0.1, at the first free port from `port`, and waits until it answers.

    If the default store does not exist it is first created from the ledger. UserError if the server does not start.
    """
    results = Path(results).resolve()
    uri = uri or default_uri(results)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        reconcile(results, uri)
    elif path is not None:
        prepare_database(path, results, EXPERIMENT)
    port = free_port(port)
    log = results / "mlflow-ui.log"
    hosts = f"localhost,{HOST},localhost:{port},{HOST}:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--default-artifact-root", artifacts_of(results), "--allowed-hosts", hosts]
    if any(app.name == APP for app in entry_points(group="mlflow.app")):  # absent where the package was installed before it had one
        command += ["--app-name", APP]
    environment = ENVIRONMENT | dict(os.environ) | {"MLFLOW_BACKEND_STORE_URI": with_driver(uri)}  # may hold a password: not an argument
    environment |= {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONUNBUFFERED": "1", COLOURS: json.dumps(_colours(results))}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=results,
            start_new_session=True,
        )
    server = UiServer(f"http://{HOST}:{port}", process, log)
    try:
        _wait(server)
    except BaseException:
        server.stop()
        raise
    return server


def serve_ui(results: Path, port: int = 5000, uri: str | None = None, *, log: Callable[[str], None] = print) -> None:
    """Serves the UI until Ctrl-C or SIGTERM and prints its address. For a remote server it only prints the address."""
    if uri is not None and is_server(uri):
        log(f"MLflow: {redact(uri)}")
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with start_ui(results, port, uri) as server:
            log(f"MLflow: {server.page}  (Ctrl-C ends it)")
            for name, page in server.pages_of_sweeps():
                log(f"{name}: {page}")
            while server.process.poll() is None:
                time.sleep(0.2)
            raise UserError(f"the MLflow server ended by itself; its log: {server.log}")
    except KeyboardInterrupt:
        log("MLflow: ended")
    finally:
        signal.signal(signal.SIGTERM, before)


def _colours(results: Path) -> dict[str, str]:
    """Name of a row -> colour, of the sweeps that a folder has now."""
    found: dict[str, str] = {}
    for path in paths(results):
        with contextlib.suppress(OSError, ValueError):
            found = views.colours(row_names(read_sweep(path)).values()) | found
    return dict(list(found.items())[-MAX_COLOURS:])


def free_port(first: int, tries: int = 100) -> int:
    """The first free port from `first`. UserError if there is none."""
    for port in range(first, min(first + tries, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise UserError(f"no free port from {first} to {first + tries - 1}")


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _open(url: str) -> Any:
    """A response of the local server, without a proxy. OSError if there is none in time."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5)


def _wait(server: UiServer) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError), _open(f"{server.url}/health") as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    last = server.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    raise UserError(f"the MLflow server did not start: {redact(last[0])} (log: {server.log})")
