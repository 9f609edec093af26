"""A shared MLflow server, started with `cluster/mlflow/serve.sh` on its own PostgreSQL server, for the tests.

PostgreSQL is Debian's package `postgresql`; the packages that MLflow needs in addition to the lock file are in `.mlflow-server`.
`make mlflow-server` installs both. All processes listen on loopback, use one temporary folder, and end with this process.
"""

import contextlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ROOT / ".mlflow-server"
START_LIMIT = 240.0
"""Seconds within which a server must answer; MLflow's workers take about 15 on two free cores."""


def absent() -> str | None:
    """Returns why no server can be started here, or None."""
    if programs() is None:
        return "PostgreSQL is not installed (make mlflow-server)"
    if not (PACKAGES / "psycopg2").is_dir():
        return "the server's packages are not installed (make mlflow-server)"
    return None


def programs() -> Path | None:
    """Returns the folder with the programs of the newest PostgreSQL, which Debian does not put on the PATH, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def free_port(distance: int = 0) -> int:
    """Returns a port that nobody uses, nor the one at `distance` above it.

    Both lie below the ports that the system gives to outgoing connections (32768 and up): none of these takes the port
    between two starts of a server. They lie above Ray's ports for workers (up to 19999).
    """
    while True:
        port = random.randrange(20000, 32768 - distance)
        with contextlib.suppress(OSError), socket.socket() as probe, socket.socket() as other:
            probe.bind(("127.0.0.1", port))
            if distance:
                other.bind(("127.0.0.1", port + distance))
            return port


class SharedServer:
    """Runs the database and the server within a `with` block. `uri` has no credentials; `environment` has the login."""

    def __init__(self, workers: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nmt-mlflow-", dir="/tmp"))  # not in a test's folder: the user postgres must reach it
        self.port, self.database_port = free_port(), free_port()
        self.user, self.password, self._database_password = "nmt", secrets.token_hex(12), secrets.token_hex(12)
        self.workers = workers
        self._postgres: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_uri(self) -> str:
        return f"postgresql://mlflow:{self._database_password}@127.0.0.1:{self.database_port}/mlflow"

    @property
    def environment(self) -> dict[str, str]:
        return {"MLFLOW_TRACKING_USERNAME": self.user, "MLFLOW_TRACKING_PASSWORD": self.password}

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def __enter__(self) -> "SharedServer":
        try:
            self.start_database()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        if self._postgres is not None:
            self._postgres.send_signal(signal.SIGINT)  # fast shutdown, which closes open sessions
            try:
                self._postgres.wait(60)
            except subprocess.TimeoutExpired:
                self._postgres.kill()
                self._postgres.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------ PostgreSQL

    def start_database(self) -> None:
        """Creates and starts a database cluster with a password, as the user postgres if this is root, which PostgreSQL refuses."""
        bin, data = programs(), self.folder / "data"
        assert bin is not None
        data.mkdir()
        secret = self.folder / "password"
        secret.write_text(self._database_password)
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            for path in (data, secret):
                shutil.chown(path, "postgres", "postgres")
            secret.chmod(0o600)
        initdb = [str(bin / "initdb"), "-D", str(data), "-U", "mlflow", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        with (self.folder / "postgres.log").open("wb") as log:
            subprocess.run([*_as_postgres(), *initdb, "-E", "UTF8", "--locale=C"], check=True, stdout=log, stderr=log, cwd=data)
            command = [str(bin / "postgres"), "-D", str(data), "-p", str(self.database_port)]
            command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
            self._postgres = subprocess.Popen([*_as_postgres(), *command], stdout=log, stderr=log, cwd=data, start_new_session=True)
        environment, log_path = os.environ | self._database(), self.folder / "postgres.log"
        create = [str(bin / "createdb"), "-U", "mlflow", "mlflow"]
        _until(lambda: subprocess.run(create, env=environment, capture_output=True).returncode == 0, self._postgres, log_path)

    def _database(self) -> dict[str, str]:
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.database_port), "PGPASSWORD": self._database_password}

    # ------------------------------------------------------------ MLflow

    def start(self) -> None:
        """Starts `serve.sh`, which creates the jobs' login if there is none yet, and waits until the server answers."""
        path = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "NMT_"))}
        environment = kept | self._database() | {"PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        admin = {"MLFLOW_AUTH_ADMIN_USERNAME": self.user, "MLFLOW_AUTH_ADMIN_PASSWORD": self.password}
        environment |= admin | {"MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16), "NMT_MLFLOW_PORT": str(self.port)}
        environment |= {"NMT_MLFLOW_ARTIFACTS": str(self.folder / "artifacts"), "NMT_MLFLOW_WORKERS": str(self.workers)}
        command = ["setpriv", "--pdeathsig", "KILL", "bash", str(ROOT / "cluster" / "mlflow" / "serve.sh")]
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        _until(self.answers, self._server, self.log)

    def answers(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with contextlib.suppress(OSError), opener.open(f"{self.uri}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def kill(self) -> None:
        """Kills the server and its workers; the database keeps running."""
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None


def _as_postgres() -> list[str]:
    """Returns a command prefix: the process ends with this one, and runs as the user postgres if this is root."""
    user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig", "INT"]


def _until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"it did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)
