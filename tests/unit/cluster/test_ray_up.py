"""The files of `ray up`, against the schema in the installed Ray and through what `ray up` does to them before it asks a cloud."""

import copy
import json

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from orchestrator.engines.ray.capacity import DRIVER
from orchestrator.paths import ROOT

FILES = ["ray-cluster.yaml", "ray-cluster-local.yaml"]


def load(name: str) -> dict:
    return yaml.safe_load((ROOT / "cluster" / name).read_text())


@pytest.mark.parametrize("name", FILES)
def test_ray_fills_in_and_accepts_them(name):
    prepared = prepare_config(copy.deepcopy(load(name)))
    validate_config(prepared)
    types = prepared["available_node_types"]
    assert prepared["head_node_type"] in types  # the schema accepts any name here
    workers = [node for kind, node in types.items() if kind != prepared["head_node_type"] or len(types) == 1]
    assert sum(node["max_workers"] for node in workers) == prepared["max_workers"] > 0
    assert sum(node["min_workers"] for node in workers) == (0 if prepared["provider"]["type"] == "aws" else prepared["max_workers"])


@pytest.mark.parametrize("name", FILES)
def test_the_head_has_the_resource_of_the_drivers_and_no_other_node_has(name):
    config = load(name)
    head, worker = config["head_start_ray_commands"][-1], config["worker_start_ray_commands"][-1]
    resources = json.loads(head.split("--resources='")[1].split("'")[0])
    assert resources == {DRIVER: 64} and DRIVER not in worker
    for kind, node in config.get("available_node_types", {}).items():
        assert (DRIVER in node["resources"]) == (kind == config["head_node_type"])


@pytest.mark.parametrize("name", FILES)
def test_the_token_comes_from_a_file_of_the_user_and_is_closed_to_others(name):
    config = load(name)
    (target,) = [target for target, source in config["file_mounts"].items() if source == "~/.ray/auth_token"]
    assert target.endswith("/.ray/auth_token")
    assert any("chmod 600 ~/.ray/auth_token" in command for command in config["setup_commands"])


def test_ssh_on_aws_is_open_to_one_network():
    for rule in load("ray-cluster.yaml")["provider"]["security_group"]["IpPermissions"]:
        assert [spec["CidrIp"] for spec in rule["IpRanges"]] and all(not spec["CidrIp"].endswith("/0") for spec in rule["IpRanges"])
