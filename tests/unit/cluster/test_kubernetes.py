"""The manifests: custom resources by their published definitions, and what we promise of pods and policies.
Nothing was ever applied to a cluster.
"""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from orchestrator.engines.ray.capacity import DRIVER, NODE_TYPES
from orchestrator.paths import ROOT
from tests.unit.cluster.crds import SCHEMAS

CLUSTER = ROOT / "cluster"
KUBERAY = CLUSTER / "kuberay"


def objects(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def ray_objects() -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for name in ("ray-cluster.yaml", "ray-job.yaml") for one in objects(KUBERAY / name)}


def core_objects() -> list[dict[str, Any]]:
    return objects(KUBERAY / "setup.yaml") + objects(CLUSTER / "mlflow" / "kubernetes.yaml")


def ray_templates() -> dict[str, dict[str, Any]]:
    """A job's cluster is the cluster."""
    job = ray_objects()["RayJob"]["spec"]
    found = {"submitter": job["submitterPodTemplate"], "cluster-head": job["rayClusterSpec"]["headGroupSpec"]["template"]}
    return found | {f"cluster-{group['groupName']}": group["template"] for group in job["rayClusterSpec"]["workerGroupSpecs"]}


def pods() -> dict[str, dict[str, Any]]:
    """Every pod template of the folder."""
    workloads = {one["metadata"]["name"]: one["spec"]["template"] for one in core_objects() if one["kind"] in ("Deployment", "StatefulSet")}
    return ray_templates() | workloads


def patched(kind: str, *patches: str) -> dict[str, Any]:
    """A manifest with its patches, by the JSON patch operations that they use (RFC 6902: add, replace, remove)."""
    name = {"RayCluster": "ray-cluster", "RayJob": "ray-job"}[kind]
    result = copy.deepcopy(ray_objects()[kind])
    for operation in (one for patch in patches for one in yaml.safe_load((KUBERAY / f"{name}-{patch}.patch.yaml").read_text())):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = result
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place[part]
        key = int(last) if isinstance(place, list) else last
        assert operation["op"] == "add" or place[key] is not None, operation
        if operation["op"] == "remove":
            del place[key]
        else:
            place[key] = operation["value"]
    return result


@pytest.mark.parametrize("words", ["RayCluster", "RayCluster gpu", "RayJob", "RayJob gpu", "RayJob queue", "RayJob gpu queue", ""])
def test_custom_resources_have_the_fields_of_their_published_definitions(words):
    for one in [patched(*words.split())] if words else objects(KUBERAY / "queue.yaml"):
        jsonschema.validate(one, SCHEMAS[one["kind"]])


@pytest.mark.parametrize("patches", [("queue",), ("gpu", "queue")])
def test_kueue_admits_a_job_of_the_queue_whole(patches):
    """What Kueue's webhook asks of a RayJob (no autoscaling, the cluster ends with the job, at most seven groups), and its quota."""
    job, queue = patched("RayJob", *patches), objects(KUBERAY / "queue.yaml")
    for label, kind in (("queue-name", "LocalQueue"), ("priority-class", "WorkloadPriorityClass")):
        names = {one["metadata"]["name"] for one in queue if one["kind"] == kind}
        assert job["metadata"]["labels"][f"kueue.x-k8s.io/{label}"] in names
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    assert spec["suspend"] and spec["shutdownAfterJobFinishes"] and not cluster["enableInTreeAutoscaling"]
    assert len(cluster["workerGroupSpecs"]) <= 7
    pods = [(spec["submitterPodTemplate"], 1), (cluster["headGroupSpec"]["template"], 1)]
    for group in cluster["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"]
        pods.append((group["template"], group["replicas"]))
    ((group,),) = [one["spec"]["resourceGroups"] for one in queue if one["kind"] == "ClusterQueue"]
    for quota in group["flavors"][0]["resources"]:
        requests = ((template["spec"]["containers"][0]["resources"]["requests"].get(quota["name"], "0"), n) for template, n in pods)
        assert sum(amount(text) * n for text, n in requests) <= amount(quota["nominalQuota"]), quota["name"]
    names = [one["name"] for template, _ in pods for one in template["spec"]["containers"][0].get("env", [])]
    head = [one["name"] for one in cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]]
    assert NODE_TYPES not in head and "MLFLOW_TRACKING_URI" in names


def amount(text: str) -> float:
    """A quantity of Kubernetes in units or bytes."""
    units = {"m": 1e-3, "Mi": 2**20, "Gi": 2**30}
    unit = next((one for one in units if text.endswith(one)), "")
    return float(text.removesuffix(unit)) * units.get(unit, 1.0)


def test_a_job_s_cluster_is_the_cluster_whose_drivers_sit_on_the_head():
    spec = ray_objects()["RayCluster"]["spec"]
    assert ray_objects()["RayJob"]["spec"]["rayClusterSpec"] == spec
    # KubeRay hands the text to a shell: the outer quotes are the shell's
    assert json.loads(json.loads(spec["headGroupSpec"]["rayStartParams"]["resources"])) == {DRIVER: 64}
    assert all("resources" not in group["rayStartParams"] for group in spec["workerGroupSpecs"])


@pytest.mark.parametrize("spec", [ray_objects()["RayCluster"]["spec"], patched("RayCluster", "gpu")["spec"]], ids=["cpu", "gpu"])
def test_workers_scale_from_none_and_sweeps_know_what_may_come(spec):
    (group,), (head,) = spec["workerGroupSpecs"], spec["headGroupSpec"]["template"]["spec"]["containers"]
    assert spec["enableInTreeAutoscaling"] and spec["autoscalerOptions"]["idleTimeoutSeconds"]
    assert group["minReplicas"] == group["replicas"] == 0
    (types,) = [yaml.safe_load(one["value"]) for one in head["env"] if one["name"] == NODE_TYPES]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    memory = int(limits["memory"].removesuffix("Gi")) * 2**30
    resources = {"CPU": int(limits["cpu"]), "memory": memory} | ({"GPU": 1} if "nvidia.com/gpu" in limits else {})
    assert types == {group["groupName"]: {"resources": resources, "max_workers": group["maxReplicas"]}}


@pytest.mark.parametrize("name", pods())
def test_no_pod_is_root_or_may_become_it(name):
    """What the namespace enforces (Pod Security Standard `restricted`), and limits, without which one row could take a whole machine."""
    spec = pods()[name]["spec"]
    assert spec["automountServiceAccountToken"] is name.endswith("-head")  # for the autoscaler
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] > 0 and security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]
    for container in spec["containers"]:
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert set(container["resources"]["limits"]) == set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_no_manifest_holds_a_secret():
    """Secrets are made by commands; what is secret comes from one by reference."""
    assert not [one for one in core_objects() if one["kind"] == "Secret"]
    for template in pods().values():
        for variable in (v for container in template["spec"]["containers"] for v in container.get("env", [])):
            secret = any(word in variable["name"] for word in ("PASSWORD", "TOKEN", "SECRET"))
            assert not secret or set(variable["valueFrom"]) == {"secretKeyRef"}, variable


def policies() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in core_objects() if one["kind"] == "NetworkPolicy"}


def test_no_policy_lets_everybody_in_or_out():
    """No rule without a peer, no peer that is any pod or any address; but the API server has an address of each cluster's choice."""
    assert all(rule["ports"] for rule in policies()["autoscaler"]["egress"])
    for name, spec in policies().items():
        for rule in spec.get("ingress", []):
            assert rule["from"] and all(peer.get("podSelector", {}).get("matchLabels") for peer in rule["from"]), name
        for rule in [] if name == "autoscaler" else spec.get("egress", []):
            assert rule["to"] and all(set(peer) <= {"podSelector", "namespaceSelector"} and peer for peer in rule["to"]), name


def test_policies_select_pods_that_are_there():
    """A label that is misspelt in a policy would deny in silence. KubeRay itself labels every Ray pod with these."""
    labels = [{"ray.io/is-ray-node": "yes", "ray.io/node-type": "head"}]
    labels += [template.get("metadata", {}).get("labels", {}) for template in pods().values()]
    for name, spec in policies().items():
        rules = [*spec.get("ingress", []), *spec.get("egress", [])]
        peers = [peer for rule in rules for peer in [*rule.get("from", []), *rule.get("to", [])]]
        here = [spec["podSelector"], *(peer["podSelector"] for peer in peers if "namespaceSelector" not in peer)]
        for wanted in (selector["matchLabels"] for selector in here if selector):
            assert any(wanted.items() <= found.items() for found in labels), (name, wanted)
