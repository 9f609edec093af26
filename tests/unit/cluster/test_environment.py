"""The nodes' environment, in its two forms, has what the product relies on; the two lists of what is not uploaded agree."""

import fnmatch
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from ray._private.runtime_env.packaging import get_excludes_from_ignore_files

from orchestrator.engines.ray import environment as ray_environment
from orchestrator.paths import ROOT

CLUSTER = ROOT / "cluster"


def config_map() -> dict[str, str]:
    (found,) = [o for o in yaml.safe_load_all((CLUSTER / "kuberay" / "setup.yaml").read_text()) if o["kind"] == "ConfigMap"]
    return found["data"]


def env_sh(**environment: str) -> dict[str, str]:
    """What env.sh exports, by a shell that has nothing else."""
    done = subprocess.run(
        ["sh", "-c", f". '{CLUSTER / 'env.sh'}' && env -0"],
        env={"PATH": os.environ["PATH"], "HOME": "/home/nobody"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    shell = {"PWD", "SHLVL", "_", "HOME", "OLDPWD"}
    return {name: value for name, _, value in (one.partition("=") for one in done.stdout.split("\0") if one) if name not in shell}


def test_nodes_have_what_the_product_sets_on_a_cluster_of_its_own(monkeypatch, tmp_path):
    """Actors of a running cluster have their node's environment, not the driver's."""
    product = {"RAY_ADDRESS": "elsewhere"}
    token = tmp_path / "ray" / "auth_token"
    token.parent.mkdir()
    token.touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", product)
        ray_environment.configure(tmp_path)
        patch.setattr(os, "environ", {})
        ray_environment.configure(tmp_path)
        for address, alone in (("127.0.0.1:6379", "0"), ("localhost:6379", "0"), ("10.0.0.1:6379", None), ("auto", None)):
            patch.setattr(os, "environ", own := {"RAY_ADDRESS": address})
            ray_environment.configure(tmp_path)
            assert own.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == alone, address
    assert len(token.read_text()) == 64 and token.stat().st_mode & 0o777 == 0o600, "a power cut left it empty"
    product.pop("RAY_ADDRESS", None)
    assert len(product) > 5
    assert product.items() <= env_sh().items()
    assert {name: value for name, value in product.items() if name != "RAY_AUTH_MODE"}.items() <= config_map().items()  # KubeRay sets it


def test_kubernetes_and_machines_have_the_same_settings():
    machines, pods = env_sh(), config_map()
    assert {name for name in machines if name not in ("RAY_AUTH_MODE", "NMT_HOME", "PATH")} == set(pods) - {"GLOO_SOCKET_IFNAME"}
    differ = {name for name, value in machines.items() if name in pods and pods[name] != value}
    assert differ == {"NCCL_SOCKET_IFNAME"}  # a pod's interface has one name


def test_a_lab_s_own_settings_win():
    ours = env_sh(
        NMT_RESULTS="/other", NCCL_SOCKET_IFNAME="ib0", NCCL_IB_DISABLE="0", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="90", NMT_HOME="/srv/nmt"
    )
    assert ours["NMT_RESULTS"] == "/other" and ours["NCCL_SOCKET_IFNAME"] == "ib0" and ours["NCCL_IB_DISABLE"] == "0"
    assert ours["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] == "90" and ours["PATH"].startswith("/srv/nmt/.venv/bin:")


SECRET = [".env", ".env.local", "deploy/id.pem", "tls.key", "auth_token", "cluster/auth_token.txt", ".ray/auth_token", "kubeconfig-lab"]
BULKY = [".netrc", "results/ab/weights.safetensors", "data/wmt14/train.en", ".data-cache/x", ".git/HEAD", ".venv/bin/python", "mlruns/0"]


@pytest.mark.parametrize("path", SECRET + BULKY)
def test_neither_uploads_nor_images_hold_secrets_data_or_results(path):
    assert ray_ignores(path) and docker_ignores(path)


def ray_ignores(path: str) -> bool:
    """By .rayignore alone: .gitignore may be switched off (RAY_RUNTIME_ENV_IGNORE_GITIGNORE)."""
    (ignored,) = get_excludes_from_ignore_files(ROOT, include_gitignore=False)
    return any(ignored(ROOT / part) for part in [path, *map(str, Path(path).parents)][:-1])


def docker_ignores(path: str) -> bool:
    """Docker's rule for the patterns we use: a path or one of its folders matches, from the root, ** over any depth."""
    lines = [line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines()]
    patterns = [line for line in lines if line and not line.startswith("#")]
    patterns += [line.removeprefix("**/") for line in patterns]
    return any(fnmatch.fnmatch(str(head), p) for head in [Path(path), *Path(path).parents][:-1] for p in patterns)
