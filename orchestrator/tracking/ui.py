"""The MLflow UI on 127.0.0.1, in this process."""

import contextlib
import os
import socket
import warnings
from collections.abc import Sequence
from pathlib import Path

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.tracking.environment import configure, default_uri, is_server, redact, sqlite_path, with_driver
from orchestrator.tracking.store import VIEW, MlflowStore, artifacts_of
from orchestrator.tracking.sweeps import reconcile

HOST = "127.0.0.1"


def runs_page(server: str, experiment: str) -> str:
    """Address of the list of runs. Without `workflowType` the UI shows its GenAI side."""
    return f"{server}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"


def serve_ui(results: Path, port: int = 5000, uri: str | None = None, *, mirrors: Sequence[Path] = ()) -> None:
    """Prints the address of the UI and serves it until Ctrl-C or SIGTERM, at the first free port from `port`.

    For a remote server it only prints the address. A database file that does not exist is first created from the ledger and its `mirrors`.
    """
    if uri is not None and is_server(uri):
        print(f"MLflow: {redact(uri)}")
        return
    results = Path(results).resolve()
    uri = uri or default_uri(results)
    if (path := sqlite_path(uri)) is not None and not path.exists():
        reconcile(results, uri, mirrors=mirrors)
    experiment = MlflowStore(results, uri).experiment  # UserError for a database that cannot be used
    port = free_port(port)
    configure()
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    os.environ["MLFLOW_SERVER_ALLOWED_HOSTS"] = f"localhost,{HOST},localhost:{port},{HOST}:{port}"
    import uvicorn  # deferred, as MLflow
    from mlflow.server import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

    os.environ |= {BACKEND_STORE_URI_ENV_VAR: with_driver(uri), ARTIFACT_ROOT_ENV_VAR: artifacts_of(results)}
    with warnings.catch_warnings(action="ignore"):
        from mlflow.server.fastapi_app import app  # reads the environment
    with contextlib.suppress(KeyboardInterrupt), interrupt.raising():
        print(f"MLflow: {runs_page(f'http://{HOST}:{port}', experiment)}  (Ctrl-C ends it)", flush=True)
        uvicorn.run(app, host=HOST, port=port, log_level="warning")
    print("MLflow: ended")


def free_port(first: int) -> int:
    """Returns the first free port from `first` on. UserError: there is none."""
    for port in range(first, min(first + 100, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise UserError(f"no free port from {first} to {first + 99}")
