"""Machines made of network namespaces: each with its own address, host name, processes and Ray node, joined by a bridge. Needs root."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.paths import ROOT

PORT = 6379  # free in every namespace
PYTHON = Path(sys.executable)


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def skip_unless_possible() -> None:
    """Tries what is needed; skips with the reason where it is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("no `ip`: install iproute2")
    name = f"nmt-{secrets.token_hex(3)}"
    try:
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "br0", "type", "bridge")
            ip("-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        finally:
            ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")


class Host:
    """One machine. `kill` is its power cut, `cut` pulls its cable."""

    def __init__(self, lab: "Lab", name: str, address: str) -> None:
        self.lab, self.name, self.address = lab, name, address
        self.netns = f"nmt-{lab.id}-{name}"
        self.home = lab.home / name
        self.home.mkdir()
        self.hidden: Path | None = None  # a folder in whose place this machine has an empty one

    def plug_in(self) -> None:
        ip("netns", "add", self.netns)
        ip("-n", self.lab.switch, "link", "add", f"to-{self.name}", "type", "veth", "peer", "name", "net0", "netns", self.netns)
        ip("-n", self.lab.switch, "link", "set", f"to-{self.name}", "master", "br0", "up")
        ip("-n", self.netns, "address", "add", f"{self.address}/24", "dev", "net0")
        ip("-n", self.netns, "link", "set", "net0", "up")
        ip("-n", self.netns, "link", "set", "lo", "up")

    def cut(self) -> None:
        ip("-n", self.lab.switch, "link", "set", f"to-{self.name}", "down")

    def popen(self, arguments: list[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a program there, in a session of its own; both outputs go to `log`."""
        hide = f"mount -t tmpfs none {self.hidden} && " if self.hidden is not None else ""  # `ip netns exec` has mounts of its own
        inside = ["ip", "netns", "exec", self.netns, "unshare", "--uts", "sh", "-c", f'{hide}hostname "$0" && exec "$@"', self.name]
        with log.open("ab") as file:
            return subprocess.Popen(
                [*inside, *arguments],
                cwd=ROOT,
                env=self.lab.environment | environment,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start_ray(self, *more: str, **environment: str) -> None:
        head = self is self.lab.hosts[0]
        place = ["--head", f"--port={PORT}", "--resources", '{"driver": 64}'] if head else [f"--address={self.lab.hosts[0].address}:{PORT}"]
        limits = [f"--object-store-memory={100 * 2**20}", f"--temp-dir={self.home}", "--disable-usage-stats", "--block"]
        arguments = [str(PYTHON.with_name("ray")), "start", *place, f"--node-ip-address={self.address}", *limits, *more]
        log = self.home / "ray.log"
        before = log.read_text().count(STARTED) if log.exists() else 0
        node = self.popen(arguments, log, **environment)
        wait(lambda: log.read_text().count(STARTED) > before or node.poll() is not None, 240, f"Ray on {self.name}")
        assert node.poll() is None, log.read_text()[-3000:]

    def processes(self) -> dict[int, str]:
        """What runs there: pid -> command line."""
        found = {}
        for pid in map(int, ip("netns", "pids", self.netns).split()):
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def running(self, what: str) -> list[int]:
        return [pid for pid, line in self.processes().items() if what in line]

    def kill(self) -> None:
        """SIGKILL for everything that runs there, children of what dies meanwhile too."""
        while pids := ip("netns", "pids", self.netns).split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)


STARTED = "Ray runtime started"


class Lab:
    """`with Lab(["head", "one"]) as lab:` hosts 10.0.0.1, .2, ... on a bridge in a namespace of its own; the first is the head."""

    def __init__(self, names: list[str]) -> None:
        self.id = secrets.token_hex(3)
        self.home = Path(tempfile.mkdtemp(prefix="nmt-h-", dir="/tmp"))  # short: Ray's sockets lie below it
        self.switch = f"nmt-{self.id}-switch"
        token = os.open(self.home / "token", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(token, secrets.token_hex(32).encode())
        os.close(token)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "NMT_", "GLOO_", "NCCL_", "TUNE_"))}
        self.environment = kept | {
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.home / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_memory_monitor_refresh_ms": "0",  # the memory is not these machines' own
            "RAY_raylet_start_wait_time_s": "400",  # a busy machine is no fault
            "RAY_worker_register_timeout_seconds": "300",
        }
        self.hosts = [Host(self, name, f"10.0.0.{number}") for number, name in enumerate(names, 1)]

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def __enter__(self) -> "Lab":
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
            ip("-n", self.switch, "link", "set", "br0", "up")
            for host in self.hosts:
                host.plug_in()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for host in self.hosts:
            with contextlib.suppress(subprocess.CalledProcessError):
                host.kill()
                ip("netns", "del", host.netns)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("netns", "del", self.switch)
        shutil.rmtree(self.home, ignore_errors=True)


def wait(condition: Callable[[], object], seconds: float, what: str) -> float:
    """Until `condition()` holds; how long that took in seconds. Fails, naming `what`, after `seconds`."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)
    return time.monotonic() - start
