"""What Ray's processes inherit: settings, a folder for temporary files, no secret that their rows do not need."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.engines.ray.session_folder import temporary
from orchestrator.ledger import mirrored

WORKER_VARIABLES = (
    "RAY_TRAIN_V2_ENABLED",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S",
    "RAY_AIR_NEW_OUTPUT",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO",
    "OMP_NUM_THREADS",
    "NMT_FAULT",
    "NMT_FAULT_ONCE",
)

SECRET_WORDS = frozenset(
    {"SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS", "KEY", "KEYS", "AUTH"}
)
CLOUDS = ("AWS_", "AZURE_", "GOOGLE_")


def settings(results: Path) -> None:
    """Settings Ray reads at start. The token file is made here with mode 0600; Ray's own is world-readable."""
    defaults = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        "RAY_TRAIN_V2_ENABLED": "1",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",  # rows wait for each other; for nodes that were lost see `engines.ray.watch`
        "RAY_AIR_NEW_OUTPUT": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours lets workers save first
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
        "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
        "OMP_NUM_THREADS": "1",
    }
    if "RAY_ADDRESS" not in os.environ:
        # On any system, not only those in its name: the node's address is 127.0.0.1, and Ray then listens nowhere else
        defaults["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_ADDRESS" not in os.environ:
        path = results / "ray" / "auth_token"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(path.resolve())


def for_workers() -> dict[str, str]:
    """What processes of a cluster that runs already get from this one. Ray refuses what the job's own environment names too."""
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("runtime_env") or {}
    return {name: os.environ[name] for name in WORKER_VARIABLES if name in os.environ and name not in job.get("env_vars", {})}


def withheld(names: Iterable[str], *, bucket: bool) -> list[str]:
    """Variables that Ray's processes do without: secrets by their names, and where MLflow is, to which this process alone writes.

    bucket: the results lie in one; workers need what AWS, Azure and Google have in their variables.
    """
    return [
        name
        for name in names
        if (not SECRET_WORDS.isdisjoint(name.upper().split("_")) or name.startswith("MLFLOW_TRACKING_"))
        and not name.startswith("RAY_")
        and not (bucket and name.startswith(CLOUDS))
    ]


@contextmanager
def inherited(folder: Path, results: Path) -> Iterator[None]:
    """Within: the environment with which Ray's processes are to start. Its own comes back at the end."""
    before = dict(os.environ)
    kernels = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"  # asked first: Python keeps its answer for this process
    for name in withheld(before, bucket=mirrored.url(results) is not None):
        del os.environ[name]
    os.environ["TMPDIR"] = str(temporary(folder))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(kernels))  # torch's own default: what it compiled serves the next sweep too
    try:
        yield
    finally:
        for name in {*before, "TMPDIR", "TORCHINDUCTOR_CACHE_DIR"}:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def pass_no_secrets(results: Path) -> None:
    """Tune passes keys of AWS on to its trials by a runtime environment, which Ray writes into a log.

    Trials of a Ray that was started here have them from it, where the results lie in a bucket. On a cluster that runs already they come
    this way, and only then.
    """
    if "RAY_ADDRESS" not in os.environ or mirrored.url(results) is None:
        from ray.tune.execution import class_cache

        class_cache.ENV_VARS_TO_PROPAGATE.difference_update(withheld(list(class_cache.ENV_VARS_TO_PROPAGATE), bucket=False))
