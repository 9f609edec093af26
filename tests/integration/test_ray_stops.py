"""A sweep of rows on two workers that is stopped at its first: what its Ray shows meanwhile, and that nothing starts after it."""

import contextlib
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.command import start
from tests.integration.ray_processes import folder_of, users
from tests.tiny import tiny

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
SECRET = "canary-of-a-cloud"
SPEC = tiny("""
source: {paper: try, table: many}
train: {max_steps: 100000, validate_every: 100000, checkpoint_every: 100000}
sweep: {seeds: [1, 2, 3, 4, 5, 6, 7, 8], scheduler: {kind: fifo}}
rows: {two-workers: {workers: 2}}
""")


def test_a_stop_ends_a_sweep_of_several_workers_with_its_first_row(tmp_path):
    """Its Ray listens on loopback alone, holds no secret, and is gone without a file at the end. The row is saved as it stood."""
    driver = _start(tmp_path, SPEC)
    try:
        folder = folder_of(driver.pid)
        assert not [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700  # nobody else reaches what Ray makes below it
        assert _elsewhere(folder) <= 1  # the store of torch's own process group
        before = time.monotonic()
        driver.send_signal(signal.SIGTERM)
        _, err = driver.communicate(timeout=300)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 130 and "Traceback" not in err, err[-2000:]
    assert time.monotonic() - before < 90  # one row's ending; before, each of the other seven took 29 s
    (journal,) = _begun(tmp_path)
    (saved,) = journal.parent.glob("ckpt/step-*/manifest.json")
    assert int(saved.parent.name.removeprefix("step-")) == len(journal.read_text().splitlines())
    assert not folder.exists()


def test_a_sweep_whose_ray_was_killed_ends_at_once(tmp_path):
    """Its only node cannot come back."""
    driver = _start(tmp_path, SPEC.replace("{workers: 2}", "{}"))
    try:
        folder = folder_of(driver.pid)
        titles = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in users(folder)}
        assert any(title.startswith(b"ray::RuntimeEnvAgent") for title in titles.values()), titles
        (raylet,) = [pid for pid, title in titles.items() if b"/raylet/raylet\0" in title]
        os.kill(raylet, signal.SIGKILL)
        before = time.monotonic()
        _, err = driver.communicate(timeout=120)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 5 and time.monotonic() - before < 30, err[-2000:]
    assert err.splitlines()[-1].endswith("the same command resumes the sweep") and "Traceback" not in err
    assert "Raylet is terminated" in err and "\n    [" not in err  # no lines of its log, up to twenty of its state


def _start(base: Path, spec: str) -> subprocess.Popen[str]:
    """A sweep whose first row has begun."""
    (base / "many.yaml").write_text(spec)
    places = ["--results", base / "results", "--cache-dir", base / "cache"]
    driver = start("sweep", base / "many.yaml", *places, "--engine", "ray", "--no-tracking", AWS_SECRET_ACCESS_KEY=SECRET)
    while not _begun(base) and driver.poll() is None:
        time.sleep(0.1)
    return driver


def _begun(base: Path) -> list[Path]:
    return list(base.glob("results/*/journal.jsonl"))


def _elsewhere(folder: Path) -> int:
    """Sockets of the folder's processes that listen on more than loopback."""
    inodes: set[str] = set()
    for pid in users(folder):
        with contextlib.suppress(OSError):
            inodes |= {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    loopback = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    ours = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in inodes]
    assert len(ours) > 5
    return sum(address not in loopback for address in ours)
