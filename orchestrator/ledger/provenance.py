"""Provenance of a result (code, libraries, processor), stored as a capsule beside it and never part of its key.

Capsules may be published, so they hold no host name, path, environment or URL.
"""

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.files.documents import read_object
from orchestrator.paths import ROOT

CODE = ("models", "orchestrator", "pyproject.toml", "requirements.lock")
"""Paths that the hash of uncommitted changes covers: edits of specs, documents and stored results do not affect a run."""

LIBRARIES = ("torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses", "safetensors", "mlflow")
COMMIT_FILE = ".nmt-source.json"
"""File in an uploaded checkout, which has no .git, that holds the commit it was made from."""


def collect(device: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Collects a capsule. `device`: its name ("cpu", "NVIDIA H200"); `threads`: by default torch's setting. Missing values: None."""
    commit, dirty = git()
    return {
        "git_commit": commit,
        "dirty_sha256": dirty,
        "lock_sha256": _sha256(ROOT / "requirements.lock"),
        "python": platform.python_version(),
        "libraries": _libraries(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device,
        "cpu": processor(),
        "threads": threads if threads is not None or "torch" not in sys.modules else int(sys.modules["torch"].get_num_threads()),
        "matmul": _matmul(),
    }


def differences(capsules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the fields in which capsules differ ("libraries.torch"), for the note of a table."""
    parts = [flat(one) for one in capsules]
    return sorted(name for name in {name for one in parts for name in one} if len({repr(one.get(name)) for one in parts}) > 1)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens a capsule to dotted names."""
    parts: dict[str, Any] = {}
    for name, item in value.items():
        parts |= flat(item, f"{prefix}{name}.") if isinstance(item, Mapping) else {f"{prefix}{name}": item}
    return parts


def git() -> tuple[str | None, str | None]:
    """Returns the commit and a hash of uncommitted changes in CODE (None: clean). Both are None outside our repository and its uploads."""
    top = run_git("rev-parse", "--show-toplevel")
    if top is None or Path(os.fsdecode(top.strip())).resolve() != ROOT:
        return read_commit(ROOT)  # the upload of a job
    head = run_git("rev-parse", "--verify", "HEAD")
    diff = b"" if head is None else run_git("diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--", *CODE)
    extra = ("--others",) if head is not None else ("--others", "--cached")
    names = run_git("ls-files", "-z", "--exclude-standard", *extra, "--", *CODE)
    digest = hashlib.sha256(diff or b"")
    others = sorted(set((names or b"").split(b"\0")) - {b""})
    for name in others:
        digest.update(name + b"\0" + (_sha256(ROOT / os.fsdecode(name)) or "").encode())
    return None if head is None else head.decode().strip(), digest.hexdigest() if diff or others else None


def run_git(*arguments: str, root: Path | None = None) -> bytes | None:
    """Output of one read-only git command in `root` (by default the product's); None if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", "-C", str(root or ROOT), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=10.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _libraries() -> dict[str, str]:
    found = {}
    for name in (*LIBRARIES, "ray") if "ray" in sys.modules else LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _matmul() -> dict[str, Any] | None:
    """The backend of matrix products in this process; None if torch is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    from models.precision import rounds
    from orchestrator import cpu

    return {
        "path": cpu.matmul_path(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": bool(torch.backends.mkldnn.is_available()),
        "cuda": torch.version.cuda,
    } | ({"bf16": "rounded to bf16, multiplied in fp32"} if rounds() else {})


def read_commit(root: Path) -> tuple[str | None, str | None]:
    """Returns (commit, sha256 of uncommitted changes or None). Both are None if the file is absent or malformed."""
    found = read_object(root / COMMIT_FILE) or {}
    valid = re.fullmatch(r"[0-9a-f]{40,64}", str(found.get("git_commit")))
    return (found["git_commit"], found.get("dirty_sha256")) if valid else (None, None)
