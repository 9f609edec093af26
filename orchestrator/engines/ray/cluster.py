"""A Ray cluster started for the sweep, or the one at RAY_ADDRESS, always with a token; and the end of a driver whose cluster is gone."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray
from ray._private import worker as ray_worker

from orchestrator.engines.ray.address import is_listening
from orchestrator.engines.ray.capacity import DRIVER
from orchestrator.engines.ray.environment import ray_environment, ray_folder, worker_variables
from orchestrator.engines.resources import local_cpus
from orchestrator.errors import ClusterError
from orchestrator.safe_text import visible
from orchestrator.specs.positions import shown

LEAVING = ExitStack()
"""Contexts that end before the connection to Ray ends, or before trials of another size start."""

HEAD_WAIT = "NMT_HEAD_WAIT_S"
"""Environment variable: seconds for which the head may be unreachable before the driver ends."""

_print = ray_worker.print_to_stdstream


def _print_without_log(data: dict[str, Any], **options: Any) -> None:
    """Prints a message of Ray to its driver, without the end of the raylet's log that follows the causes: lines of its inner state."""
    _print(data | {"lines": [line.partition(" Last 20 lines of the Raylet logs")[0] for line in data["lines"]]}, **options)


ray_worker.print_to_stdstream = _print_without_log


@contextmanager
def cluster(results: Path, *, several_workers: bool) -> Iterator[None]:
    """Context: this process is connected to Ray. A cluster started here is shut down at the end.

    several_workers: a run of the sweep has several workers. Only then are there Train runs, and with them the dashboard.
    `environment.configure` must have been called before this module was imported.
    """
    if ray.is_initialized():  # by an outer context of several sweeps
        yield
        return
    address = os.environ.get("RAY_ADDRESS")
    print("starting Ray" if address is None else "connecting to Ray", file=sys.stderr, flush=True)
    with nullcontext() if address else ray_folder() as folder, ExitStack() as ends:
        ends.callback(ray.shutdown)
        ends.callback(LEAVING.close)
        try:
            if folder is None:
                ray.init(address=address, log_to_driver=False, logging_level="ERROR", runtime_env={"env_vars": worker_variables()})
            else:
                with ray_environment(folder, results):
                    try:
                        _start(folder, dashboard=several_workers)
                    except Exception:  # Ray waits for 30 s, which a busy machine exceeds
                        ray.shutdown()
                        _start(folder, dashboard=several_workers)
        except Exception as error:  # Ray raises many types
            what = "Ray did not start" if address is None else f"RAY_ADDRESS {shown(address)}: Ray did not connect"
            text = " ".join(str(error).split())
            short = text if len(text) <= 300 else f"{text[:100]} ... {text[-200:]}"  # the end of a log, of which the last line is the cause
            causes = "; ".join([visible(short), *_first_errors(folder)])
            raise ClusterError(f"{what} ({type(error).__name__}): {causes}; the same command tries again") from None
        own = [] if address else ["{NodeManagerAddress}:{NodeManagerPort}".format_map(ray.nodes()[0])]
        with head_watchdog(ray.get_runtime_context().gcs_address, *own):
            yield


def _start(folder: Path, *, dashboard: bool) -> None:
    ray.init(
        num_cpus=local_cpus(),
        resources={DRIVER: 64},
        include_dashboard=dashboard,  # Train frees placement groups of stopped runs through it; its processes take long to start
        dashboard_host="127.0.0.1",
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=str(folder / "r"),  # each of Ray's processes sets it and its subfolders to 0777; the folder around it stays at 0700
    )


def _first_errors(folder: Path | None) -> list[str]:
    """The first line on stderr of each server of a Ray in `folder` that did not start. Ray's exceptions name these files, which go."""
    logs = [] if folder is None else [folder / "r/session_latest/logs" / f"{name}.err" for name in ("gcs_server", "raylet")]
    texts = {log.stem: log.read_text(errors="replace").strip() for log in logs if log.is_file()}
    return [f"{name}: {shown(text.splitlines()[0], 300)}" for name, text in texts.items() if text]


@contextmanager
def head_watchdog(*addresses: str) -> Iterator[None]:
    """Context: this process exits with one line and code 5 if one of the head's addresses (host:port) is unreachable for too long.

    A thread ends the process at once, because the main thread may be blocked in a call of Ray. Durable files are on disk already.
    """
    closed = threading.Event()
    limit = float(os.environ.get(HEAD_WAIT, 30.0 if "RAY_ADDRESS" in os.environ else 5.0))  # a Ray of our own does not come back
    threading.Thread(target=_watch, args=(addresses, limit, closed), name="head-watchdog", daemon=True).start()
    try:
        yield
    finally:
        closed.set()


def _watch(addresses: Sequence[str], limit: float, closed: threading.Event) -> None:
    last_answer = time.monotonic()
    while not closed.wait(min(2.0, limit / 4)):
        silent = [address for address in addresses if not is_listening(address)]
        if not silent:
            last_answer = time.monotonic()
        elif time.monotonic() - last_answer >= limit and not closed.is_set():
            line = f"error: Ray's head ({silent[0]}) has not answered for {limit:g} s; on a new cluster the same command resumes the sweep"
            print(line, file=sys.stderr, flush=True)
            os._exit(ClusterError.code)
