"""Creates one virtual environment per peer, separate from the main one, with pinned versions.

    python benchmarks/peers/environments.py [NAMES] [--environments DIR]        (make peers)

torch is that of the main environment: a .pth file adds its packages after each peer's own, so that torch is installed once and pip never
changes it. Every package is pinned in requirements/NAME.txt and installed without dependencies, because these lists are complete.
The folder is --environments, else $NMT_PEERS, else .peers in the repository.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in (HERE / "requirements").glob("*.txt"))
PTH = "packages-of-the-main-environment.pth"


def folder(given: str | None = None) -> Path:
    return Path(given or os.environ.get("NMT_PEERS") or HERE.parents[1] / ".peers").resolve()


def python(name: str, environments: Path) -> Path | None:
    """Returns the interpreter of a complete environment, or None."""
    path = environments / name / "bin" / "python"
    return path if path.exists() and (environments / name / "installed").exists() else None


def create(name: str, environments: Path) -> str:
    """Creates or completes one environment and returns what was done. Raises subprocess.CalledProcessError if pip fails."""
    requirements, place = HERE / "requirements" / f"{name}.txt", environments / name
    stamp, wanted = place / "installed", hashlib.sha256(requirements.read_bytes() + sys.prefix.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return "there"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    own = Path(_ask(place / "bin" / "python", "import sysconfig; print(sysconfig.get_paths()['purelib'])"))
    (own / PTH).write_text("".join(f"{path}\n" for path in dict.fromkeys(sysconfig.get_paths()[k] for k in ("purelib", "platlib"))))
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([*pip, "-r", str(requirements)], check=True, env=environment)
    stamp.write_text(wanted)
    return "installed"


def _ask(interpreter: Path, code: str) -> str:
    return subprocess.run([str(interpreter), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"default: all of {', '.join(NAMES)}")
    parser.add_argument("--environments", metavar="DIR")
    args = parser.parse_args()
    unknown = sorted(set(args.names) - set(NAMES))
    if unknown:
        raise SystemExit(f"error: no such peer: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = []
    for name in args.names or NAMES:
        try:
            print(f"{name}: {create(name, folder(args.environments))}", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name}: failed, exit status {error.returncode}", flush=True)
    if failed:
        raise SystemExit(f"error: not installed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
