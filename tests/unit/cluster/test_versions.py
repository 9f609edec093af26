"""One version of Ray, of torch and of Python everywhere: the lock and the Makefile say which."""

import re
from pathlib import Path

from orchestrator.paths import ROOT

CLUSTER = ROOT / "cluster"


def locked(name: str, lock: Path = ROOT / "requirements.lock") -> str:
    (version,) = re.findall(rf"^{re.escape(name)}==(\S+) ", lock.read_text(), re.MULTILINE)
    return version


def test_ray_is_the_locked_one_in_the_image_and_in_the_manifests():
    assert re.findall(r"^ARG RAY_VERSION=(\S+)$", (CLUSTER / "Dockerfile").read_text(), re.MULTILINE) == [locked("ray")]
    found = re.findall(r"^\s*rayVersion: \"?([\d.]+)\"?", "\n".join(p.read_text() for p in CLUSTER.rglob("*.yaml")), re.MULTILINE)
    assert found == [locked("ray")] * 2


def test_torch_is_the_makefile_s():
    (torch,) = re.findall(r"^TORCH := torch==(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^ARG TORCH_VERSION=(\S+)$", (CLUSTER / "Dockerfile").read_text(), re.MULTILINE) == [torch, torch]


def test_the_mlflow_server_adds_only_what_the_lock_lacks():
    """Exact versions with hashes; nothing that the product's lock has too, in another version or at all."""
    lock = (CLUSTER / "mlflow" / "requirements.lock").read_text()
    entries = re.findall(r"^([a-z0-9][\w.-]*)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE)
    assert sum(1 + hashes.count("\n") for _, _, hashes in entries) == lock.count("\n")
    names = {name for name, _, _ in entries}
    assert {"psycopg2-binary", "flask-wtf"} <= names
    assert not names & set(re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
