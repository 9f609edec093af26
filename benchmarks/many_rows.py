"""A sweep of N short rows: what a row costs beyond its work, the driver's memory, the volume of logs, and MLflow's projection.

    python benchmarks/many_rows.py N [ray|local]     # N: 20 or more

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
from overheads import ENVIRONMENT, times_of  # noqa: E402
from train_runs import TOY  # noqa: E402

SPEC = f"""source: {{paper: benchmark, table: many-rows}}
{TOY}
optim: {{schedule: {{kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}}}}
train: {{max_steps: 10}}
decode: {{beam_size: 1}}
rows:
"""
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    rows, engine = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "ray"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = "".join(f"  r{n}: {{optim: {{schedule: {{lr: {3e-3 + n * 1e-6:.6f}}}}}}}\n" for n in range(rows))
        (folder / "spec.yaml").write_text(SPEC + rates)
        sweep = ["sweep", "spec.yaml", "--engine", engine, "--seeds", "1", "--no-tracking", *["--jobs", "auto"][: 2 * (engine == "local")]]
        print(f"{describe()['cpu']}; {rows} rows, engine {engine}; load {os.getloadavg()[0]:.1f}")
        began = time.time()
        wall, log = watch(sweep, folder)
        spans = sorted(times_of(run) for run in folder.glob("results/*/history.jsonl"))
        first, last, work = spans[0][0], max(end for _, end in spans), sum(end - begin for begin, end in spans)
        many = os.cpu_count() or 1
        print(f"first update after {first - began:.1f} s; from it to the last score {last - first:.1f} s; then {began + wall - last:.1f} s")
        print(f"a row: {work / rows:.2f} s of work, {(many * (last - first) - work) / rows:.2f} s beyond it ({many} at a time)")
        for name, tenth in (("first", spans[: rows // 10]), ("last", spans[-(rows // 10) :])):
            print(f"{name} tenth of the rows: one every {(tenth[-1][0] - tenth[0][0]) / (len(tenth) - 1):.2f} s")
        print(f"stderr {log / 1024:.0f} KiB; files of Tune {size(folder / 'results/ray') / 1024:.0f} KiB")
        for what in (sweep, ["reconcile"], ["reconcile"]):
            watch(what, folder)


def watch(words: list[str], folder: Path) -> tuple[float, int]:
    """Runs a command and prints its seconds and the largest memory of its processes. Returns its wall clock and the bytes on stderr."""
    cpu, titles, most, logs, started = dict[int, float](), dict[int, str](), Counter[str](), 0, time.time()
    with (folder / "stderr").open("w") as file:
        command = [sys.executable, "-m", "orchestrator", *words]
        driver = subprocess.Popen(command, cwd=folder, env=os.environ | ENVIRONMENT, stdout=file, stderr=file, start_new_session=True)
    while driver.poll() is None:
        for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
            with contextlib.suppress(OSError, StopIteration):
                if os.getsid(pid) == driver.pid:
                    title = titles[pid] = "driver" if pid == driver.pid else title_of(pid) or titles.get(pid, "")
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    most[title] = max(most[title], int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]))
        for path in Path("/tmp").glob(f"nmt-ray-{driver.pid}-*"):
            with contextlib.suppress(OSError):  # files vanish meanwhile
                logs = max([logs, *map(size, path.glob("r/session_*/logs"))])
        time.sleep(1)
    wall = time.time() - started
    if driver.returncode:
        sys.exit((folder / "stderr").read_text()[-2000:])
    total = {title: sum(seconds for pid, seconds in cpu.items() if titles[pid] == title) for title in titles.values()}
    print(f"{words[0]}: {wall:.1f} s, {sum(total.values()):.1f} CPU-s, Ray's logs {logs / 1024:.0f} KiB", flush=True)
    for title, seconds in sorted(total.items(), key=lambda item: -item[1])[:8]:
        print(f"{list(titles.values()).count(title):5} x {title:<24} {seconds:8.1f} CPU-s, at most {most[title] / 1024:5.0f} MB")
    return wall, (folder / "stderr").stat().st_size


def title_of(pid: int) -> str:
    """The command of a process; Ray's actors by their class; "" of a process that ends."""
    word = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[0].split(" ")[0]
    return word.removeprefix("ray::").split(".")[0] if word.startswith("ray::") else Path(word).name


def size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    main()
