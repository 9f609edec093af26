"""Processes and memory of Ray Train runs: a sweep of rows with two workers, N of which run at a time, however few cores there are.

    python benchmarks/train_runs.py N

Prints, by title, the processes of the sweep's Ray and their memory (PSS, which counts shared pages once), when all rows have begun that fit
the machine's memory.
"""

import collections
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]
from machine import describe  # noqa: E402

TOY = """
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
"""
SPEC = f"""source: {{paper: benchmark, table: train-runs}}
{TOY}
train: {{max_steps: 100}}
rows: {{two: {{workers: 2}}}}
"""
START = """
import runpy, sys
from orchestrator.engines import resources
cpus = int(sys.argv.pop(1))
resources.local_cpus = lambda: cpus
runpy.run_module("orchestrator", run_name="__main__")
"""
HELPERS = ("ImplicitFunc", "TrainController", "DatasetManager", "PlacementGroupCleaner", "SynchronizationActor", "_QueueActor")


def main() -> None:
    many = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.yaml").write_text(SPEC)
        words = ["sweep", str(folder / "spec.yaml"), "--engine", "ray", "--no-tracking", "--seeds", ",".join(map(str, range(1, many + 1)))]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "NMT_FAULT": "step@3:sleep600"}
        command = [sys.executable, "-c", START, str(2 * many), *words]
        with (folder / "stderr").open("w") as file:
            driver = subprocess.Popen(command, cwd=folder, env=environment, stderr=file)
        try:
            while len(list(folder.glob("results/*/journal.jsonl"))) < many and driver.poll() is None:
                time.sleep(1)
                fit = re.search(r"at most (\d+) runs? at a time", (folder / "stderr").read_text())
                many = many if fit is None else min(many, int(fit[1]))
            if driver.poll() is not None:
                sys.exit((folder / "stderr").read_text()[-2000:])
            time.sleep(5)
            report(many, f"nmt-ray-{driver.pid}-".encode())
        finally:
            driver.kill()
            driver.wait()
            time.sleep(10)  # Ray's processes end by themselves


def report(many: int, folder: bytes) -> None:
    """folder: begin of the name of the folder of the sweep's Ray, which its processes have in their environment or arguments."""
    count, memory = collections.Counter[str](), collections.Counter[str]()
    for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError, StopIteration):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            if folder not in arguments + Path(f"/proc/{pid}/environ").read_bytes():
                continue
            words = arguments.split(b"\0")[0].decode()
            title = words.removeprefix("ray::").split(".")[0] if words.startswith("ray::") else "Ray's own"
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory[title] += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
            count[title] += 1
    machine = describe()
    print(f"{machine['cpu']}, torch {machine['torch']}; {many} rows of two workers at a time; load {os.getloadavg()[0]:.0f}")
    for title, kilobytes in memory.most_common():
        print(f"{count[title]:4} x {title:<32} {kilobytes / 1024:8.0f} MB")
    for name, titles in (("helpers", HELPERS), ("workers", ("RayTrainWorker",))):
        processes, kilobytes = (sum(found[title] for title in titles) for found in (count, memory))
        print(f"{name} of a Train run: {processes / many:.1f} processes, {kilobytes / 1024 / many:.0f} MB")
    print(f"all: {count.total()} processes, {memory.total() / 1024:.0f} MB")


if __name__ == "__main__":
    main()
