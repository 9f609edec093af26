"""A sweep of N short rows: what a row costs beyond its work, the driver's memory, the volume of logs, and MLflow's projection.

    python benchmarks/many_rows.py N [ray|local]

The work of a row lies between the files of its run: from the first report to the last score. CPU seconds are those of all processes of the
sweep, among which other work on the machine does not count.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]
from machine import describe  # noqa: E402
from overheads import _times  # noqa: E402

SPEC = """
source: {paper: benchmark, table: many-rows}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 10}
decode: {beam_size: 1}
rows:
"""
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    rows, engine = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "ray"
    machine = describe()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.yaml").write_text(
            SPEC
            + "".join(
                f"  r{n}: {{optim: {{schedule: {{kind: inverse-sqrt, lr: {3e-3 + n * 1e-6:.6f}, warmup: 10}}}}}}\n" for n in range(rows)
            )
        )
        sweep = ["sweep", "spec.yaml", "--engine", engine, "--seeds", "1", "--no-tracking", *["--jobs", "auto"][: 2 * (engine == "local")]]
        print(f"{machine['cpu']}, torch {machine['torch']}; {rows} rows, engine {engine}; load {os.getloadavg()[0]:.1f}")
        began = time.time()
        wall, log = watch(sweep, folder)
        spans = sorted(_times(run) for run in folder.glob("results/*/history.jsonl"))
        first, last, work = spans[0][0], max(end for _, end in spans), sum(end - begin for begin, end in spans)
        at_a_time = os.cpu_count() or 1
        print(f"first update after {first - began:.1f} s; from it to the last score {last - first:.1f} s; then {began + wall - last:.1f} s")
        print(f"a row: {work / rows:.2f} s of work, {(at_a_time * (last - first) - work) / rows:.2f} s beyond it ({at_a_time} at a time)")
        for number, tenth in ((n, spans[rows * n // 10 : rows * (n + 1) // 10]) for n in (0, 9)):
            print(f"tenth {number + 1} of the rows: one every {(tenth[-1][0] - tenth[0][0]) / (len(tenth) - 1):.2f} s")
        print(f"stderr {log / 1024:.0f} KiB; files of Tune {size(folder / 'results/ray') / 1024:.0f} KiB")
        for what in (sweep, ["reconcile"], ["reconcile"]):
            watch(what, folder)


def watch(words: list[str], folder: Path) -> tuple[float, int]:
    """Runs a command and prints its seconds and the largest memory of its processes. Returns its wall clock and the bytes on stderr."""
    cpu, titles, most, logs, started = dict[int, float](), dict[int, str](), Counter[str](), 0, time.time()
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (folder / "stderr").open("w") as file:
        command = [sys.executable, "-m", "orchestrator", *words]
        driver = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True)
    while driver.poll() is None:
        for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
            with contextlib.suppress(OSError, StopIteration):
                if os.getsid(pid) == driver.pid:
                    title = titles[pid] = title_of(pid, driver.pid) or titles.get(pid, "")
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    most[title] = max(most[title], int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]))
        for path in Path("/tmp").glob(f"nmt-ray-{driver.pid}-*"):
            logs = max(logs, size(path / "r", "session_*/logs/**/*"))
        time.sleep(1)
    wall = time.time() - started
    if driver.returncode:
        sys.exit((folder / "stderr").read_text()[-2000:])
    total = Counter[str]()
    for pid, seconds in cpu.items():
        total[titles[pid]] += seconds  # type: ignore[assignment]
    print(f"{words[0]}: {wall:.1f} s, {sum(total.values()):.1f} CPU-s, Ray's logs {logs / 1024:.0f} KiB", flush=True)
    for title, seconds in total.most_common(8):
        print(
            f"    {title:<24} {list(titles.values()).count(title):4} processes {seconds:8.1f} CPU-s, at most {most[title] / 1024:5.0f} MB"
        )
    return wall, (folder / "stderr").stat().st_size


def title_of(pid: int, driver: int) -> str:
    """The command of a process; Ray's actors by their class."""
    if pid == driver:
        return "driver"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return words[0].removeprefix("ray::").split(".")[0] if words[0].startswith("ray::") else Path(words[0].split(" ")[0]).name


def size(folder: Path, pattern: str = "**/*") -> int:
    """Bytes of the files in a folder, some of which may vanish meanwhile."""
    found = 0
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            found += path.stat().st_size if path.is_file() and not path.is_symlink() else 0
    return found


if __name__ == "__main__":
    main()
