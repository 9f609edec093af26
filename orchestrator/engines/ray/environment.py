"""The folder and the environment of Ray's processes: settings, and no unnecessary secrets. Does not import Ray."""

import fcntl
import getpass
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.files.listed import listed, mapped
from orchestrator.ledger import object_store
from orchestrator.paths import search_spaces

WORKER_VARIABLES = listed(__file__, "worker_variables.txt")
SECRET_WORDS = frozenset(
    {"SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "AUTH"}
)
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")

PARENT = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
"""A short path if possible, because paths of Ray's sockets are below it."""
TEMPORARY = "tmp"
"""The TMPDIR of Ray's processes, in the folder of `ray_folder`."""


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Context: a new folder for the sockets, logs and temporary files of a Ray that a sweep starts, which only this user sees.

    Those of killed drivers are removed first: nobody holds their locks. A new one may not be locked yet.
    """
    for folder in PARENT.glob("nmt-ray-*"):
        with suppress(OSError), _locked(folder):
            if time.time() - folder.stat().st_mtime > 60:
                shutil.rmtree(folder)
    folder = Path(tempfile.mkdtemp(prefix=f"nmt-ray-{os.getpid()}-", dir=PARENT))
    (folder / TEMPORARY).mkdir()
    try:
        with _locked(folder):
            yield folder
    finally:
        deadline = time.monotonic() + 1.0  # a process that exits may still write a file
        while folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Context: only this process holds the folder. OSError: another process holds it, or it is no folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def configure(results: Path) -> None:
    """Sets the variables that Ray reads when it is imported or started; the user's values win. Must be called before importing Ray.

    The token file is created here with mode 0600, because Ray's own is world-readable.
    """
    defaults = mapped(__file__, "settings.txt")
    if os.environ.get("RAY_ADDRESS", "localhost:").rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]"):
        # Despite its name it applies to any system: the node's address is 127.0.0.1, and Ray listens on no other
        defaults["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if "RAY_ADDRESS" not in os.environ:
        defaults["RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"] = "0"  # a process of each Train run; this machine is not taken away
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_ADDRESS" not in os.environ:
        path = (results / "ray" / "auth_token").resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):  # another first sweep may start
            if not path.exists() or not path.read_text().strip():
                with atomic.replacing(path) as new:
                    atomic.write_new(new, secrets.token_hex(32).encode(), mode=0o600)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)


def worker_variables() -> dict[str, str]:
    """Variables passed to the processes of a running cluster. Ray refuses those that the job's own runtime environment sets too."""
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("runtime_env") or {}
    found = {name: os.environ[name] for name in WORKER_VARIABLES if name in os.environ} | _own_search_spaces()
    return {name: value for name, value in found.items() if name not in job.get("env_vars", {})}


def _own_search_spaces() -> dict[str, str]:
    """The variable for workers, which have another working folder; none where the user's own are the product's."""
    own = search_spaces()[1:]
    return {"NMT_SEARCH_SPACES": str(own[0])} if own else {}


def secret_variables(names: Iterable[str], *, bucket: bool) -> list[str]:
    """Variables to withhold from Ray's processes: secrets, recognised by name, and MLflow's address, since only the driver writes to it.

    bucket: the results are in a bucket, so workers need the variables of AWS, Azure and Google.
    """
    return [
        name
        for name in names
        if (not SECRET_WORDS.isdisjoint(name.upper().split("_")) or name.startswith("MLFLOW_TRACKING_"))
        and not name.startswith("RAY_")
        and not (bucket and name.startswith(CLOUDS))
    ]


@contextmanager
def ray_environment(folder: Path, results: Path) -> Iterator[None]:
    """Context: the environment in which Ray's processes start. The previous one is restored at the end."""
    before = dict(os.environ)
    kernels = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"  # before TMPDIR changes: Python caches gettempdir()
    for name in secret_variables(before, bucket=object_store.url(results) is not None):
        del os.environ[name]
    os.environ["TMPDIR"] = str(folder / TEMPORARY)
    os.environ |= _own_search_spaces()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kernels))  # torch's default, so that compiled kernels serve the next sweep too
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
