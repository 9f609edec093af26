"""One version of Ray, of torch and of Python everywhere: the lock and the Makefile say which."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
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


def test_the_image_has_a_python_that_the_product_supports():
    (python,) = set(re.findall(r"-py(\d)(\d\d)-", (CLUSTER / "Dockerfile").read_text()))
    low, high = re.findall(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text())[0]
    assert python[0] == "3" and int(low) <= int(python[1]) < int(high)


def test_the_mlflow_server_adds_only_what_the_lock_lacks():
    """Exact versions with hashes; nothing that the product's lock has too, in another version or at all."""
    lock = (CLUSTER / "mlflow" / "requirements.lock").read_text()
    entries = re.findall(r"^([a-z0-9][\w.-]*)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE)
    assert sum(1 + hashes.count("\n") for _, _, hashes in entries) == lock.count("\n")
    names = {name for name, _, _ in entries}
    assert {"psycopg2-binary", "flask-wtf"} <= names
    assert not names & set(re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


def test_every_yaml_of_the_folder_is_read_by_some_test():
    """A new file here must come with its check."""
    known = {"ray-cluster.yaml", "ray-cluster-local.yaml", "smoke.yaml", "mlflow/compose.yaml", "mlflow/kubernetes.yaml"}
    known |= {
        f"kuberay/{name}"
        for name in ("setup.yaml", "ray-cluster.yaml", "ray-job.yaml", "ray-cluster-gpu.patch.yaml", "ray-job-gpu.patch.yaml")
    }
    found = {path.relative_to(CLUSTER).as_posix() for path in CLUSTER.rglob("*.y*ml")}
    assert found == known
    for name in found:
        assert list(yaml.safe_load_all((CLUSTER / name).read_text()))
