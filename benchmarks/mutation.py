"""Mutation testing by cosmic-ray: makes small random changes in a copy of the checkout, one at a time, and runs tests.

    python benchmarks/mutation.py orchestrator/files/json_lines.py --tests tests/unit/files [--sample 40] [--seed 1]

A mutant is killed if a test fails, and survives if all pass: then no test checks what the change broke. The exit code is 1 if a mutant
survived. cosmic-ray has an environment of its own, .peers/cosmic-ray, which the first call creates.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / ".peers" / "cosmic-ray"
LEFT_OUT = (".venv", ".git", ".cache", "results", ".data-cache", "mlruns", ".mypy_cache", ".ruff_cache", ".peers", ".mlflow-server", "docs")
LIMIT_S = 600
"""Of the tests of one mutant; a mutant that exceeds it counts as killed."""
CONFIG = """[cosmic-ray]
module-path = "{module}"
timeout = 1.0
excluded-modules = []
test-command = "true"
[cosmic-ray.distributor]
name = "local"
"""


def tool() -> str:
    """The path of cosmic-ray, after installing it where it is absent."""
    program = TOOL / "bin" / "cosmic-ray"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(TOOL)], check=True)
        pip = [str(TOOL / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(Path(__file__).with_name("mutation_requirements.txt"))], check=True)
    return str(program)


def mutants_of(module: str, copy: Path) -> list[dict[str, Any]]:
    """Every mutation of a module that cosmic-ray knows, in a fixed order."""
    (copy / "cosmic-ray.toml").write_text(CONFIG.format(module=module))
    session = copy / f"{module.replace('/', '-')}.sqlite"
    subprocess.run([tool(), "init", "cosmic-ray.toml", session.name], cwd=copy, check=True, capture_output=True)
    dump = subprocess.run([tool(), "dump", session.name], cwd=copy, check=True, capture_output=True, text=True).stdout
    found = [json.loads(line)[0]["mutations"][0] for line in dump.splitlines()]
    return sorted(found, key=lambda one: (one["start_pos"], one["operator_name"], one["occurrence"]))


def survives(mutant: dict[str, Any], tests: list[str], copy: Path) -> bool:
    """Whether all tests pass on the mutant. The file is restored."""
    path = copy / mutant["module_path"]
    before = path.read_bytes()
    try:
        change = [mutant["module_path"], mutant["operator_name"], str(mutant["occurrence"])]
        subprocess.run([tool(), "apply", *change], cwd=copy, check=True, capture_output=True)
        return passes(tests, copy)
    finally:
        path.write_bytes(before)


def passes(tests: list[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not ray and not browser", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="files of models/ or orchestrator/")
    parser.add_argument("--tests", nargs="+", required=True, help="arguments of pytest")
    parser.add_argument("--sample", type=int, default=40, help="mutants to try (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
        copy = Path(scratch) / "checkout"
        shutil.copytree(ROOT, copy, ignore=lambda folder, names: {"__pycache__", *(LEFT_OUT if Path(folder) == ROOT else ())} & {*names})
        if not passes(args.tests, copy):
            raise SystemExit("error: the tests do not pass on the unchanged checkout")
        known = [mutant for module in args.modules for mutant in mutants_of(module, copy)]
        sample = random.Random(args.seed).sample(known, min(args.sample, len(known)))
        survivors = 0
        for number, mutant in enumerate(sample, 1):
            survived = survives(mutant, args.tests, copy)
            survivors += survived
            where = f"{mutant['module_path']}:{mutant['start_pos'][0]} {mutant['operator_name'].removeprefix('core/')}"
            print(f"{number}/{len(sample)} {'survived' if survived else 'killed'}: {where}", flush=True)
    print(f"{survivors} of {len(sample)} sampled mutants survived ({len(known)} are possible)")
    return int(survivors > 0)


if __name__ == "__main__":
    raise SystemExit(main())
