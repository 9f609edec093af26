"""One version of Ray, of torch and of Python everywhere: the lock and the Makefile say which."""

import re
from pathlib import Path

from orchestrator.paths import ROOT

CLUSTER = ROOT / "cluster"


def locked(lock: Path = ROOT / "requirements.lock") -> dict[str, str]:
    """Package -> version; every line is an exact version with hashes."""
    entries = re.findall(r"^([a-z0-9][\w.-]*)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock.read_text(), re.MULTILINE)
    assert sum(1 + hashes.count("\n") for _, _, hashes in entries) == lock.read_text().count("\n")
    assert len({name for name, _, _ in entries}) == len(entries)
    return {name: version for name, version, _ in entries}


def test_the_lock_leaves_torch_alone():
    """Torch comes first, by `make setup`."""
    names = {*locked()}
    assert len(names) > 100 and not {"torch", "triton", "pip"} & names and not [name for name in names if name.startswith("nvidia-")]
    assert {"filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy", "typing-extensions"} <= names, "what torch needs"
    assert locked()["mlflow"] == "3.17.2"


def test_ray_is_the_locked_one_in_image_and_manifests_and_torch_the_makefile_s():
    assert re.findall(r"^ARG RAY_VERSION=(\S+)$", (CLUSTER / "Dockerfile").read_text(), re.MULTILINE) == [locked()["ray"]]
    found = re.findall(r"^\s*rayVersion: \"?([\d.]+)\"?", "\n".join(p.read_text() for p in CLUSTER.rglob("*.yaml")), re.MULTILINE)
    assert found == [locked()["ray"]] * 2
    (torch,) = re.findall(r"^TORCH := torch==(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^ARG TORCH_VERSION=(\S+)$", (CLUSTER / "Dockerfile").read_text(), re.MULTILINE) == [torch, torch]


def test_the_mlflow_server_adds_only_what_the_lock_lacks():
    """Nothing that the product's lock has too, in another version or at all."""
    names = {*locked(CLUSTER / "mlflow" / "requirements.lock")}
    assert {"psycopg2-binary", "flask-wtf"} <= names and not names & {*locked()}
