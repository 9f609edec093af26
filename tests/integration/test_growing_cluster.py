"""Sweeps on a cluster that grows from nothing, loses nodes that announce it, and shrinks again: Ray's fake nodes on this machine."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from benchmarks.mlflow_server import free_port
from orchestrator.paths import ROOT
from tests.tiny import tiny

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
PATIENCE = 300.0
"""Seconds: a bound for what must not hang, on a machine that may be busy."""
SPEC = tiny("""
source: {paper: try, table: growing}
decode: {beam_size: 1}
""")
SHORT = (
    SPEC
    + """
train: {max_steps: 150, validate_every: 150, checkpoint_every: 150}
sweep: {seeds: 8, scheduler: {kind: fifo}, resources: {labels: {zone: a}}}
rows: {short: {}}
"""
)
LONG = (
    SPEC
    + """
train: {max_steps: 400, validate_every: 400, checkpoint_every: 1000000}
sweep: {seeds: 1, scheduler: {kind: fifo}, resources: {labels: {zone: ZONE}}}
rows: {alone: {}, pair: {workers: 2, model: {decoder: {num_layers: 1}}}}
"""
)
PATIENT = {"RAY_raylet_start_wait_time_s": "40", "RAY_worker_register_timeout_seconds": "300"}
HEAD, HEAD_TYPE = "f" * 51 + "00000", "ray.head.default"  # as the provider calls it
NO_CPU = {"resources": {"CPU": 0, "driver": 64}, "max_workers": 0}
TYPES = {f"in-{zone}": {"resources": {"CPU": 1}, "labels": {"zone": zone}, "max_workers": many} for zone, many in (("a", 3), ("b", 4))}
NODES = """
import sys, time, ray
from ray._private import state
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION
ray.init(sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
for word in sys.stdin:
    live = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if word.startswith("drain"):
        free = state.available_resources_per_node()
        busy = [node["NodeID"] for node in live if node["Labels"]["zone"] == "b" and not free.get(node["NodeID"], {}).get("CPU")]
        taken, _ = GcsClient(sys.argv[1]).drain_node(busy[0], DRAIN_NODE_REASON_PREEMPTION, "spot", int(time.time() * 1000) + 60000)
        assert taken
    print("nodes", *sorted(node["Labels"]["zone"] for node in live), flush=True)
"""
"""Answers each line with `nodes` and the zones of the live ones. `drain` first announces the end, in 60 s, of one in zone b with work."""

MACHINE = """
import sys, time
from ray._private.node import Node
from ray._private.parameter import RayParams
Node(
    RayParams(gcs_address=sys.argv[1], redis_address=sys.argv[1], num_cpus=1, labels={"zone": sys.argv[2]}, object_store_memory=100 * 2**20,
              min_worker_port=0, max_worker_port=0, dashboard_agent_listen_port=0),
    head=False, shutdown_at_exit=False, spawn_reaper=False,
)
time.sleep(10**6)
"""


class Lab:
    """A head without CPUs, whose autoscaler may add nodes of one CPU: three in zone a, four in zone b."""

    helper: subprocess.Popen[str]

    def __init__(self, home: Path) -> None:
        self.home, self.address = home, f"127.0.0.1:{free_port()}"
        (home / "token").touch(0o600)
        (home / "token").write_text(secrets.token_hex(32))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "NMT_"))}
        settings = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(home / "token"), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        self.environment = kept | settings | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        provider = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
        commands = "initialization setup head_setup worker_setup head_start_ray worker_start_ray"
        # `external`: under its own name Ray reads a file that the wheel lacks
        where = {"type": "external", "module": provider, "launch_multiple": True, "gcs_address": self.address, "head_node_id": HEAD}
        config = {
            "cluster_name": "fake",
            "max_workers": 7,
            "idle_timeout_minutes": 0.1,
            "provider": where,
            "available_node_types": {kind: about | {"node_config": {}} for kind, about in {**TYPES, HEAD_TYPE: NO_CPU}.items()},
            "head_node_type": HEAD_TYPE,
            "auth": {},
            "file_mounts": {},
            "cluster_synced_files": [],
            **{f"{name}_commands": [] for name in commands.split()},
        }
        (home / "autoscaler.yaml").write_text(yaml.safe_dump(config))

    def start(self) -> subprocess.Popen[bytes]:
        node = {"RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        node |= {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD, "RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_NODE_TYPE_NAME": HEAD_TYPE}
        node |= PATIENT | {"RAY_TRAIN_V2_ENABLED": "1"}
        ports = [f"--port={self.address.split(':')[1]}", f"--dashboard-port={free_port()}", f"--dashboard-agent-listen-port={free_port()}"]
        places = ["--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1", f"--temp-dir={self.home}/r"]
        limits = ["--num-cpus=0", "--resources", '{"driver": 64}', f"--object-store-memory={100 * 2**20}"]
        command = [Path(sys.executable).with_name("ray"), "start", "--head", *ports, *places, *limits, "--block"]
        with (self.home / "head.log").open("wb") as log:
            return subprocess.Popen(
                [*map(str, command), f"--autoscaling-config={self.home}/autoscaler.yaml"],
                env=self.environment | node,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def join(self, zone: str) -> subprocess.Popen[bytes]:
        """Starts a machine of one CPU without the autoscaler; again, if its agent took more than Ray's time on a busy machine."""
        command, before = [sys.executable, "-c", MACHINE, self.address, zone], self.ask().count(zone)
        for _ in range(4):
            with (self.home / "machines.log").open("ab") as log:
                machine = subprocess.Popen(command, env=self.environment | PATIENT, stdout=log, stderr=log, start_new_session=True)
            late = time.monotonic() + 45
            while time.monotonic() < late:
                if self.ask().count(zone) > before:
                    return machine
                time.sleep(0.5)
            end(machine)
        raise AssertionError((self.home / "machines.log").read_text()[-3000:])

    def sweep(self, name: str, spec: str, **environment: str) -> subprocess.Popen[str]:
        (self.home / f"{name}.yaml").write_text(spec)
        places = [f"--results={self.home}/{name}", f"--cache-dir={self.home}/cache", "--no-tracking", "--json"]
        command = [sys.executable, "-m", "orchestrator", "sweep", str(self.home / f"{name}.yaml"), "--engine", "ray", *places]
        more = environment | {"RAY_ADDRESS": self.address, "NMT_NODE_TYPES": json.dumps(TYPES)}
        return subprocess.Popen(command, env=self.environment | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def nodes(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", NODES, self.address]
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, word: str = "list") -> list[str]:
        assert self.helper.stdin is not None and self.helper.stdout is not None
        self.helper.stdin.write(f"{word}\n")
        return next(line for line in self.helper.stdout if line.startswith("nodes")).split()[1:]

    def steps(self, name: str) -> dict[str, int]:
        """Updates that a sweep's rows executed so far, repeated ones too."""
        journals = (path for path in self.home.glob(f"{name}/*/journal.jsonl") if path.with_name("spec.yaml").exists())
        rows = ((yaml.safe_load(path.with_name("spec.yaml").read_text())["id"], path.read_text()) for path in journals)
        return {row.split("/")[-1]: len(text.splitlines()) for row, text in rows}


def wait(condition: Callable[[], object], what: str, ignored: type[Exception] = AssertionError) -> None:
    start, met = time.monotonic(), False
    while not met:
        assert time.monotonic() - start < PATIENCE, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.5)
        with contextlib.suppress(ignored):
            met = bool(condition())


def processes(machine: subprocess.Popen[bytes]) -> dict[int, bytes]:
    """Command lines of a machine of `Lab.join`, by id: the processes of its session, which Ray puts into groups of their own."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == machine.pid:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
    return found


def end(machine: subprocess.Popen[bytes]) -> None:
    """Kills it without a notice."""
    for process in processes(machine):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def kill_all(home: Path) -> None:
    """The fake nodes too, which no head ends."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{home}/r/".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def started(lab: Lab) -> bool:
    """Starts the head. False if its agent took more than Ray's 15 s on a busy machine."""
    head, log, raylet = lab.start(), lab.home / "head.log", lab.home / "r/session_latest/logs/raylet.err"
    late = "Timed out waiting for file"
    wait(lambda: "Ray runtime started" in log.read_text() or head.poll() is not None or late in raylet.read_text(), "the head", OSError)
    if head.poll() is None and late not in raylet.read_text():
        return True
    head.kill()
    kill_all(lab.home)
    return False


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    home = Path(tempfile.mkdtemp(prefix="nmt-g-", dir="/tmp"))  # short: Ray's sockets lie below it
    lab = Lab(home)
    try:
        assert any(started(lab) for _ in range(4)), (home / "head.log").read_text()[-3000:]
        lab.helper = lab.nodes()
        yield lab
        lab.helper.kill()
    finally:
        kill_all(home)
        shutil.rmtree(home, ignore_errors=True)


def rows(out: str) -> dict[str, dict]:
    return {record["id"].split("/")[-1]: record for record in map(json.loads, out.splitlines()) if "weights_sha256" in record}


def test_eight_rows_from_no_node_to_three_and_back(lab):
    """Each row sleeps, so that nodes that join meanwhile find rows that wait."""
    assert lab.ask() == []
    sweep = lab.sweep("short", SHORT, NMT_FAULT="step@75:sleep10")
    out, err = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0 and "on 3 nodes: " in err, err
    assert [record["status"] for record in map(json.loads, out.splitlines()) if "status" in record] == ["done"] * 8
    journals = [[json.loads(line)["t"] for line in path.read_text().splitlines()] for path in lab.home.glob("short/*/journal.jsonl")]
    at_once = max(sum(times[0] <= start[0] <= times[-1] for times in journals) for start in journals)
    assert (len(journals), at_once) == (8, 3)
    wait(lambda: not lab.ask(), "the end of idle nodes")


def test_a_drained_node_loses_no_update_and_changes_no_bit(lab):
    """On one and on two workers; only the notice asks for a checkpoint. In zone a the same rows run undisturbed."""
    calm, drained = (lab.sweep(name, LONG.replace("ZONE", zone)) for name, zone in (("calm", "a"), ("drained", "b")))
    for row in ("alone", "pair"):
        wait(lambda row=row: lab.steps("drained").get(row, 0) >= 50 or drained.poll() is not None, f"50 steps of {row}")
        assert drained.poll() is None and lab.steps("drained")[row] < 300
        lab.ask("drain")
    (out, err), (expected, _) = (sweep.communicate(timeout=PATIENCE) for sweep in (drained, calm))
    assert drained.returncode == calm.returncode == 0, err
    assert {name: row["weights_sha256"] for name, row in rows(out).items()} == {n: r["weights_sha256"] for n, r in rows(expected).items()}
    assert lab.steps("drained") == lab.steps("calm") == {"alone": 400, "pair": 400}
    assert "its node is being drained" in err


def test_a_row_goes_on_with_fewer_workers_when_a_machine_ends_without_notice(lab):
    machines = [lab.join("c") for _ in range(2)]
    rare = (
        LONG.replace("ZONE", "c").replace("checkpoint_every: 1000000", "checkpoint_every: 40").replace("max_steps: 400", "max_steps: 1200")
    )
    for name in ("first", "second", "third"):  # Ray learns late of a machine that has just joined, and may begin on the other alone
        sweep = lab.sweep(name, rare[: rare.index("rows:")] + "rows: {elastic: {workers: [1, 2]}}")
        wait(lambda name=name, sweep=sweep: lab.steps(name).get("elastic", 0) >= 50 or sweep.poll() is not None, "50 steps")
        if all(any(b"RayTrainWorker" in line for line in processes(machine).values()) for machine in machines):
            break
        sweep.send_signal(signal.SIGINT)
        sweep.communicate(timeout=PATIENCE)
    end(machines[1])
    _, err = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 0, err
    (path,) = lab.home.glob(f"{name}/*/train.json")
    record = json.loads(path.read_text())
    (first, two), (changed, one) = record["workers"]
    assert (record["status"], first, two, one) == ("done", 0, 2, 1) and 40 <= changed <= 1160 and changed % 40 == 0, record
    assert "1 to 2 x 1 CPU" in err, err
    end(machines[0])
