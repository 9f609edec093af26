"""Analyses in MLflow: one run each, tagged `nmt.kind=analysis`, with its data and figure as artifacts.

Without the tags `nmt.sweep` and `nmt.run` it does not count as a training.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.tracking.environment import reason
from orchestrator.tracking.store import MlflowStore


def log_analysis(
    results: Path, name: str, kind: str, files: Sequence[Path], params: Mapping[str, Any], tags: Mapping[str, str], uri: str | None = None
) -> str | None:
    """Logs the files of an analysis, in place of those of an earlier call. Returns None, or a warning if that failed.

    name: stable name of its run. tags: without the prefix `nmt.`.
    """
    folder = str(files[0].resolve().parent) if files else ""
    identity = {"nmt.kind": "analysis", "nmt.analysis": hashlib.sha256(f"{kind}\n{name}\n{folder}".encode()).hexdigest()}
    now = int(time.time() * 1000)
    try:
        store = MlflowStore(results, uri)
        with FileLock(store.lock("analyses")):
            for old in store.find(identity):
                store.delete(old.info.run_id)
            run = store.create(name, identity | {"nmt.analysis_kind": kind} | {f"nmt.{key}": value for key, value in tags.items()}, now)
            store.write(run, spec=atomic.plain(params))
            store.write_artifacts(run, {path.name: path for path in files})
            store.write_status(run, "FINISHED", now)
    except Exception as error:
        return f"warning: MLflow cannot be written ({reason(error)}); analyse again to log the files"
    return None
