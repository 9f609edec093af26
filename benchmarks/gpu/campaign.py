"""Everything that is measured on a GPU, in order of worth: each part is a process of its own with a time limit.

    python benchmarks/gpu/campaign.py --out DIR --data-dir DATA           # all parts that fit into --minutes
    python benchmarks/gpu/campaign.py --out DIR --parts speed depth       # some of them
    python benchmarks/gpu/campaign.py --out DIR --toy                     # the same at toy sizes on a CPU: whether it runs

DIR/parts.json says after each part how it ended. DIR/PART.json is what the part measured, DIR/PART.log what else it said, and
DIR/results holds the ledger. A part that fails or runs out of time stops nothing, and the same call again leaves out parts that are
done. Without Ray, parts `ray` and `ray-killed` are left out; MLflow is not needed. Rows share the device;
NVIDIA's MPS daemon, where it is installed, is started here and ended at the end.

`decode-cpu` translates again on the CPU what `alone` translated on the device: their BLEU should be equal within rounding.
`ray-killed` kills a sweep through Ray after a minute, and the same command goes on with it.
"""

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
TUNE = ROOT / "search_spaces" / "tune" / "mini.yaml"
PLAIN = "modern/first/plain6"
TUNED = {"first": "modern/first/plain6,x0,value-residual,mudd", "dou": "dou2018/table1/row1,row4,row5,row9,row1-continued"}
TABLES = ("mlrf2018/table2", "modern/first", "hao2019/table1", "wei2020/table2", "shen2018/table1")


class Part(NamedTuple):
    """command: its words. minutes: the longest it may take."""

    name: str
    command: list[str]
    minutes: float


def parts(args: argparse.Namespace) -> list[Part]:
    """The parts in order of worth. With --toy, smoke rows of one table and tiny models on a CPU."""
    script, device = str(ROOT / "benchmarks"), ["--device", "cpu"] if args.toy else []
    tiny = ["--size", "tiny", "--batch-tokens", "200", "--updates", "1", "--rounds", "1", "--batches", "4", "--length", "5"]
    tiny += ["--forms", "padded", "packed", "--plain", "plain torch"]
    methods = ["--size", "tiny", "--batch-tokens", "300", "--updates", "1", "--rounds", "1"] if args.toy else []
    speed = tiny if args.toy else ["--size", "base", "big"]
    depth = ["--depths", "6", "--tokens", "100", "--rounds", "1"] if args.toy else ["--width", "256", "--tokens", "32000"]
    tables, jobs = (("quickstart/fusion",), (1, 2)) if args.toy else (TABLES, (4, 8, 16))
    alone = ("run", "quickstart/fusion/baseline" if args.toy else PLAIN, "--seed", "100")
    return [
        Part("tests", [PYTHON, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu"], 8),
        # seeds that no shipped result and no other part has, for equal work is done once
        Part("alone", _rows(args, *alone), 5),
        Part("decode-cpu", _decoded_on_a_cpu(args, *alone), 5),
        *(Part(f"jobs-{n}", _rows(args, "sweep", tables[0], "--seeds", str(100 + n), "--jobs", str(n)), 8) for n in jobs),
        *(
            Part(f"tuned-{name}", _rows(args, "sweep", target, "--tune-with", str(TUNE), "--jobs", "12"), 10)
            for name, target in ({} if args.toy else TUNED).items()  # its rates are those of mini
        ),
        Part("speed", [PYTHON, f"{script}/gpu/speed.py", "--json", *device, *speed], 8),
        Part("methods", [PYTHON, f"{script}/gpu/methods.py", *device, *methods], 3),
        Part("methods-compiled", [PYTHON, f"{script}/gpu/methods.py", "--compile", *device, *methods], 8),
        *(
            Part(name.replace("/", "-"), _rows(args, "sweep", name, "--seeds", "1,2,3", "--controls", "params", "--jobs", "auto"), 10)
            for name in tables
        ),
        Part("depth", [PYTHON, f"{script}/depth.py", "--json", *device, *depth], 6),
        Part("estimate", _rows(args, "plan", tables[0], "--probe"), 4),
        *(_through_ray(args, tables[0]) if importlib.util.find_spec("ray") else ()),
    ]


def _rows(args: argparse.Namespace, command: str, target: str, *options: str, results: str = "results", engine: str = "local") -> list[str]:
    """A command of the product on rows of mini (smoke with --toy)."""
    words = [PYTHON, "-m", "orchestrator", command, target, *options, "--profile", "smoke" if args.toy else "mini", "--json"]
    words += ["--data-dir", str(args.data_dir)] if args.data_dir else []
    words += ["--results", str(args.out / results), "--cache-dir", str(args.out / "cache")]
    return words if command == "plan" else [*words, "--engine", engine, "--no-tracking"]


def _decoded_on_a_cpu(args: argparse.Namespace, *run: str) -> list[str]:
    """The same run in a copy of the results without translations, where no device is seen."""
    again = shlex.join(_rows(args, *run, results="results-cpu"))
    old, new = shlex.quote(str(args.out / "results")), shlex.quote(str(args.out / "results-cpu"))
    return ["bash", "-c", f"cp -r {old} {new} && rm -rf {new}/*/decode {new}/*/score && CUDA_VISIBLE_DEVICES= {again}"]


def _through_ray(args: argparse.Namespace, table: str) -> list[Part]:
    resources = () if args.toy else ("--resources", "gpu=auto")
    sweep = [_rows(args, "sweep", table, "--seeds", seeds, *resources, engine="ray") for seeds in ("201,202", "203,204")]
    killed = f"timeout -s KILL {15 if args.toy else 60} {shlex.join(sweep[1])}"
    return [Part("ray", sweep[0], 8), Part("ray-killed", ["bash", "-c", f"{killed}; {shlex.join(sweep[1])}"], 8)]


def run(part: Part, out: Path, seconds: float) -> dict[str, object]:
    """Runs one part for at most `seconds`; code is None if that was too short. What the part started ends with it."""
    started = time.monotonic()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    with (out / f"{part.name}.json").open("wb") as measured, (out / f"{part.name}.log").open("wb") as log:
        process = subprocess.Popen(part.command, cwd=ROOT, env=environment, stdout=measured, stderr=log, start_new_session=True)
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(seconds)
        _end(process)
    return {"command": part.command, "code": code, "seconds": round(time.monotonic() - started, 1)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the part's processes to save and end, and kills what is left after 20 seconds."""
    for sign, patience in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, sign)
            process.wait(patience)


@contextmanager
def mps(out: Path) -> Iterator[None]:
    """NVIDIA's daemon that lets processes compute side by side on one device; nothing where it is not installed."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": str(out / "mps"), "CUDA_MPS_LOG_DIRECTORY": str(out / "mps")}
    (out / "mps").mkdir(exist_ok=True)
    subprocess.run([control, "-d"], check=False)
    works = [PYTHON, "-c", "import torch; torch.zeros(1).cuda().item()"]
    if subprocess.run(works, check=False, capture_output=True).returncode:
        print("MPS does not work here: processes share the device by turns", flush=True)
        subprocess.run([control], input=b"quit\n", check=False)
        del os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
        yield
        return
    try:
        yield
    finally:
        subprocess.run([control], input=b"quit\n", check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--minutes", type=float, default=28.0, help="for all parts; those that do not fit are left for the next call")
    parser.add_argument("--parts", nargs="+", metavar="PART")
    parser.add_argument("--toy", action="store_true")
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    known = [part.name for part in parts(args)]
    if unknown := set(args.parts or []) - set(known):
        parser.error(f"--parts: found {', '.join(sorted(unknown))}; expected {', '.join(known)}")
    record, end = args.out / "parts.json", time.monotonic() + 60 * args.minutes
    found = json.loads(record.read_text()) if record.exists() else {}
    with mps(args.out):
        for part in parts(args):
            left = end - time.monotonic()
            if (args.parts and part.name not in args.parts) or found.get(part.name, {}).get("code") == 0 or left < 30:
                continue
            found[part.name] = run(part, args.out, min(left, 60 * part.minutes))
            record.write_text(json.dumps(found, indent=2) + "\n")
            print(f"{part.name}: exit {found[part.name]['code']} after {found[part.name]['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
