"""Fields, types and enumerations of the custom resources that `cluster/kuberay` uses, as published: ray.io/v1 of KubeRay 1.6
(docs/reference/api.md, helm-chart/kuberay-operator/crds) and kueue.x-k8s.io/v1beta2 (config/components/crd/bases). Strict: a
field that is not listed is an error. Pod templates are Kubernetes' own objects, which no test checks field by field.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {"type": "object"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
QUANTITY: Schema = {"type": ["string", "integer"], "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|[KMGTPE]i?)?$"}


def choice(*values: str) -> Schema:
    return {"enum": list(values)}


def record(required: str = "", texts: str = "", counts: str = "", flags: str = "", objects: str = "", **fields: Schema) -> Schema:
    """Names of required fields and of those of the plain types, by spaces; all others by their schemas."""
    for names, one in ((texts, TEXT), (counts, COUNT), (flags, FLAG), (objects, ANY)):
        fields |= dict.fromkeys(names.split(), one)
    return {"type": "object", "properties": fields, "required": required.split(), "additionalProperties": False}


def several(one: Schema, least: int = 1, most: int = 64) -> Schema:
    return {"type": "array", "items": one, "minItems": least, "maxItems": most}


METADATA = {"type": "object", "properties": {"name": TEXT, "generateName": TEXT, "namespace": TEXT, "labels": TEXTS, "annotations": TEXTS}}


def resource(api: str, kind: str, required: str = "spec", **fields: Schema) -> Schema:
    return record(f"apiVersion kind metadata {required}", apiVersion=choice(api), kind=choice(kind), metadata=METADATA, **fields)


RAY_CLUSTER = record(
    "headGroupSpec",
    texts="rayVersion",
    flags="suspend enableInTreeAutoscaling",
    authOptions=record(mode=choice("disabled", "token"), secretName=TEXT),
    autoscalerOptions=record(
        texts="image",
        counts="idleTimeoutSeconds",
        objects="resources securityContext",
        version=choice("v1", "v2"),
    ),
    headGroupSpec=record(
        "template",
        objects="template",
        rayStartParams=TEXTS,
        serviceType=choice("ClusterIP", "NodePort", "LoadBalancer"),
    ),
    workerGroupSpecs=several(
        record(
            "groupName template",
            texts="groupName",
            counts="replicas minReplicas maxReplicas idleTimeoutSeconds",
            flags="suspend",
            objects="template",
            rayStartParams=TEXTS,
        )
    ),
)
RAY_JOB = record(
    "entrypoint rayClusterSpec",
    texts="entrypoint",
    counts="backoffLimit ttlSecondsAfterFinished",
    flags="shutdownAfterJobFinishes suspend",
    objects="submitterPodTemplate",
    submissionMode=choice("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    submitterConfig=record(counts="backoffLimit"),
    rayClusterSpec=RAY_CLUSTER,
)
KUEUE = "kueue.x-k8s.io/v1beta2"
FLAVOR = record("name resources", name=TEXT, resources=several(record("name nominalQuota", name=TEXT, nominalQuota=QUANTITY)))
CLUSTER_QUEUE = record(
    namespaceSelector=ANY,
    queueingStrategy=choice("StrictFIFO", "BestEffortFIFO"),
    preemption=record(withinClusterQueue=choice("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
    resourceGroups=several(record("coveredResources flavors", coveredResources=several(TEXT), flavors=several(FLAVOR)), most=16),
)
SCHEMAS = {
    "RayCluster": resource("ray.io/v1", "RayCluster", spec=RAY_CLUSTER),
    "RayJob": resource("ray.io/v1", "RayJob", spec=RAY_JOB),
    "ResourceFlavor": resource(KUEUE, "ResourceFlavor", "", spec=record(nodeLabels=TEXTS)),
    "ClusterQueue": resource(KUEUE, "ClusterQueue", spec=CLUSTER_QUEUE),
    "LocalQueue": resource(KUEUE, "LocalQueue", spec=record("clusterQueue", clusterQueue=TEXT)),
    "WorkloadPriorityClass": resource(KUEUE, "WorkloadPriorityClass", "value", value={"type": "integer"}, description=TEXT),
}
