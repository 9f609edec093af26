"""What each job gets of a cluster, how many run side by side, and what is refused with which numbers."""

import resource
from dataclasses import replace

import pytest

from orchestrator.engines import resources as engine_resources
from orchestrator.engines.ray import capacity as ray_capacity
from orchestrator.engines.resources import Capacity, Demand, Node, job_demands, side_by_side
from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.specs.rows import resolve
from orchestrator.specs.sweep import Resources, parse_resources
from orchestrator.sweeps.task import Task
from tests.unit.conftest import refused

GB = 10**9


def task(workers: int = 1, **train: object) -> Task:
    spec = resolve("cluster/smoke.yaml#baseline")[0].spec
    spec = spec.model_copy(update={"train": spec.train.model_copy(update=train)})
    return Task("demo/small/row", 1, spec, Keys("k", None, None), "results", workers=workers)


def test_a_limit_under_which_ray_cannot_start_is_one_line(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda name: (64, 64))
    with pytest.raises(UserError, match=r"^--engine ray: found ulimit -n 64; expected at least 1,024, or --engine local$"):
        engine_resources.check_limits()


@pytest.fixture(autouse=True)
def known_size(monkeypatch):
    """Every job needs 10 GB."""
    monkeypatch.setattr("orchestrator.sweeps.plan.Data.memory", lambda *_: 10 * GB)


def cluster(*nodes: Node, gpu_memory: int | None = None) -> Capacity:
    return Capacity(nodes, gpu_memory)


def of(capacity: Capacity, *tasks: Task, **wanted: object) -> list[Demand]:
    return job_demands([[one] for one in tasks], capacity, Resources.model_validate(wanted))


@pytest.mark.parametrize(
    ("nodes", "threads", "workers", "many"),
    [
        ([Node(8)], 1, 1, 8), ([Node(8)], 3, 1, 2), ([Node(8, drivers=64)], 1, 2, 4), ([Node(8, drivers=3)], 1, 2, 3),
        ([Node(3), Node(3)], 2, 1, 2),  # what is left on two nodes does not add up
        ([Node(8, memory=25 * GB)], 1, 1, 2), ([Node(8, memory=25 * GB), Node(8, memory=15 * GB)], 4, 1, 3),
    ],
)  # fmt: skip
def test_on_cpus_as_many_as_cores_threads_and_memory_allow(nodes, threads, workers, many):
    (demand,) = of(cluster(*nodes), task(workers, threads=threads))
    assert demand.resources == {"CPU": threads}
    assert cluster(*nodes).max_concurrent(demand) == many


@pytest.mark.parametrize(
    ("gpu_memory", "workers", "wanted", "share", "many"),
    [
        (80 * GB, 1, {"gpu": "auto"}, 0.1666, 12),  # 10 GB and a quarter more, six times on each of two
        (None, 1, {"gpu": "auto"}, 1.0, 2),  # not known: not shared
        (12 * GB, 1, {"gpu": "auto"}, 1.0, 2), (800 * GB, 1, {"gpu": "auto"}, 0.125, 16), (80 * GB, 2, {"gpu": "auto"}, 1.0, 1),
        (80 * GB, 1, {"gpu": "auto", "memory": "30G"}, 0.5, 4), (5 * GB, 1, {"gpu": "auto", "memory": "none"}, 1.0, 2),
        (80 * GB, 1, {"gpu": 0.4}, 0.4, 4),  # 0.2 of each GPU stays free
        (80 * GB, 1, {}, 1.0, 2), (80 * GB, 1, {"gpu": 0.25}, 0.25, 8), (80 * GB, 1, {"gpu": 2.0}, 2.0, 1),
    ],
)  # fmt: skip
def test_on_gpus_trials_share_one_by_their_memory(gpu_memory, workers, wanted, share, many):
    """The head has no GPU: what the cluster has counts."""
    have = cluster(Node(4, drivers=64), Node(16, gpus=2), gpu_memory=gpu_memory)
    (demand,) = of(have, task(workers), **wanted)
    assert demand.gpus == pytest.approx(share) and set(demand.resources) == {"GPU"}
    assert have.max_concurrent(demand) == many


@pytest.mark.parametrize(
    ("nodes", "workers", "wanted", "text"),
    [
        ([Node(2, drivers=1)], 64, {}, "needs 64 x 1 CPU with 10.0 GB (estimated); the cluster has 2 CPUs, so Ray would never schedule it"),
        ([Node(8)], 2, {}, "no node has the resource `driver`"),
        ([Node(8, gpus=2)], 2, {}, "no node has the resource `driver`"),
        ([Node(8, gpus=2, drivers=1)], 3, {}, "needs 3 x 1 GPU; the cluster has 8 CPUs, 2 GPU"),
        ([Node(8, memory=6 * GB)], 1, {}, "has 8 CPUs, 6.0 GB, so Ray would never schedule it; --resources memory=none ignores"),
        ([Node(8, gpus=1, drivers=1)], 1, {"gpu": "auto"}, "needs 10.0 GB (estimated); the smallest GPU has 8.0 GB"),
        ([Node(8, gpus=1, drivers=1)], 2, {"gpu": 0.5}, "NCCL needs a GPU for each"),
        ([Node(2), Node(2)], 1, {"threads": 4}, "the cluster has 2 nodes: 2 CPUs + 2 CPUs, so"),
    ],
)
def test_what_cannot_fit_is_refused_with_the_numbers(nodes, workers, wanted, text):
    own = task(workers, threads=wanted.pop("threads", 1))
    lines = refused(of, cluster(*nodes, gpu_memory=8 * GB), own, **wanted)
    assert text in lines[0] and lines[0].startswith("demo/small/row: ")


@pytest.mark.parametrize(
    ("cpus", "threads", "gpu_memory", "many"),
    [(8, 1, None, 8), (8, 3, None, 2), (2, 3, None, 1), (16, 4, 80 * GB, 6), (4, 1, 80 * GB, 4), (16, 1, 11 * GB, 1)],
)
def test_jobs_auto_is_bound_by_cores_or_by_the_memory_of_the_gpu(cpus, threads, gpu_memory, many, monkeypatch):
    monkeypatch.setattr(engine_resources, "local_cpus", lambda: cpus)
    assert side_by_side([[task()], [task(threads=threads)]], gpu_memory) == many


def test_jobs_auto_refuses_what_the_gpu_does_not_hold(monkeypatch):
    """The local engine trains a row of several workers in one process."""
    monkeypatch.setattr("orchestrator.sweeps.plan.Data.memory", lambda data, spec, workers, device: 10 * GB // workers)
    with pytest.raises(UserError, match=r"needs 10\.0 GB \(estimated\); the GPU has 9\.0 GB"):
        side_by_side([[task(workers=2)]], 9 * GB)


def test_what_the_autoscaler_may_add_counts():
    empty = replace(cluster(Node(0, drivers=64)), addable=(Node(4, memory=25 * GB), Node(4, memory=25 * GB)))
    (demand,) = of(empty, task())
    assert empty.max_concurrent(demand) == 4 and empty.describe() == "2 x 4 CPUs, 25.0 GB when needed"
    assert empty.resources(demand) == {"CPU": 1.0, "memory": 10.0 * GB}
    with pytest.raises(UserError, match=r"needs 8 CPUs .*; the cluster has 2 x 4 CPUs, 25\.0 GB when needed, so Ray would never"):
        of(empty, task(threads=8))


def test_a_sweep_on_nodes_with_labels_or_a_gpu(monkeypatch):
    """Nodes of the autoscaler and their labels are read as the sweep reads them on the head."""
    live = {"Alive": True, "Resources": {"driver": 64.0}, "Labels": {}}
    monkeypatch.setattr(ray_capacity.ray, "nodes", lambda: [live, live | {"Resources": {"CPU": 2.0}, "Labels": {"zone": "a"}}])
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    near = "{resources: {CPU: 2}, labels: {zone: a}, max_workers: 3}"
    big = "{resources: {CPU: 8, 'accelerator_type:A100': 1}, max_workers: 1}"
    monkeypatch.setenv("NMT_NODE_TYPES", f"{{near: {near}, big: {big}}}")

    def described(**wanted: object) -> str:
        return ray_capacity.live_capacity(Resources.model_validate(wanted)).describe()

    assert described() == "2 CPUs and 2 x 2 CPUs + 1 x 8 CPUs when needed"
    assert described(labels={"zone": ["a", "b"]}) == "2 CPUs and 2 x 2 CPUs when needed"
    assert described(accelerator_type="A100") == "1 x 8 CPUs when needed"
    wanted = Resources.model_validate({"labels": {"zone": "b"}})
    with pytest.raises(UserError, match=r"needs 1 CPU .* on nodes with zone=b; the cluster has none, so Ray would never schedule it"):
        job_demands([[task()]], ray_capacity.live_capacity(wanted), wanted)
    monkeypatch.setenv("NMT_NODE_TYPES", "[4]")
    with pytest.raises(UserError, match=r"^NMT_NODE_TYPES: cannot be read; expected types of nodes such as \{worker: "):
        described()


@pytest.mark.parametrize(
    "wrong", [{"labels": {"zo ne": "a"}}, {"labels": {"zone": []}}, {"labels": {"zone": 3}}, {"accelerator_type": "A 100"}]
)
def test_labels_that_ray_would_not_take(wrong):
    with pytest.raises(ValueError, match=r"pattern|at least 1|valid list"):
        Resources.model_validate(wrong)
    assert Resources.model_validate({"labels": {"zone": ["a", "b"], "ray.io/market-type": "spot"}}).selector["zone"] == "in(a,b)"


def test_every_row_that_cannot_fit_is_named():
    lines = refused(of, cluster(Node(2, drivers=1)), task(3), replace(task(4), id="demo/small/other"), task())
    assert [line.split(":")[0] for line in lines] == ["demo/small/row", "demo/small/other"]


@pytest.mark.parametrize(
    ("text", "found"), [("gpu=auto,memory=12G", {"gpu": "auto", "memory": "12G"}), ("gpu=0.25", {"gpu": 0.25}), (None, {})]
)
def test_the_option(text, found):
    assert parse_resources(text) == found


@pytest.mark.parametrize("text", ["gpu=1.5", "gpu=0", "gpu=nan", "memory=lots", "wait=600", "cpu=2", "gpu"])
def test_the_option_refuses(text):
    with pytest.raises(UserError, match="--resources"):
        parse_resources(text)
