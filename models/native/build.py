"""C files -> a library for this machine's processor, made once and kept in the user's cache folder."""

import ctypes
import functools
import hashlib
import itertools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
THREADS = (("-fopenmp",), ("-fopenmp-simd",), ())
"""Tried in turn, for this processor and then for every one of its kind: the first that the compiler takes."""
COMPILERS = ("cc", "gcc", "clang")
SECONDS = 300


class BuildError(Exception):
    """No library can be made here; one line."""


def library(sources: Path) -> ctypes.CDLL:
    """The functions of the C files in `sources`. BuildError: no compiler, none that takes them, or no folder that may be written."""
    compiler = find_compiler()
    name = f"native-{_key(sources, compiler)}.so"
    try:
        folder = _folder()
        built = folder / name
        if not (built.is_file() and _private(built)):
            with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
                made = Path(scratch) / name
                _compile(compiler, sources, made)
                made.replace(built)
        return ctypes.CDLL(str(built))
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody's home is known
        raise BuildError(f"cannot keep or load {name}: {error}") from None


def find_compiler() -> str:
    """Its path. BuildError: there is none."""
    for name in filter(None, (os.environ.get("CC"), *COMPILERS)):
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(f"found no C compiler; looked for $CC, {', '.join(COMPILERS)}")


def _compile(compiler: str, sources: Path, target: Path) -> None:
    files = sorted(map(str, sources.glob("*.c")))
    levels = [(f"-march={_level()}",), *([()] if _level() == "native" else [])]  # what is asked for is made, or nothing
    for machine, threads in itertools.product(levels, THREADS):
        try:
            done = subprocess.run(
                [compiler, *FLAGS, *machine, *threads, *files, "-o", str(target), "-lm"], capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise BuildError(f"{compiler} took more than {SECONDS} s") from None
        if done.returncode == 0:
            return
    last = done.stderr.strip().splitlines()
    raise BuildError(f"{compiler} failed: {last[-1] if last else f'exit code {done.returncode}'}")


def _level() -> str:
    """The processor that the library is made for: this one, or one of fewer instructions."""
    return os.environ.get("NMT_ISA") or "native"


def _key(sources: Path, compiler: str) -> str:
    """Changes with whatever changes the library: the source, the flags, the compiler, the processor."""
    about = Path(compiler).resolve().stat()
    text = [path.read_text() for path in sorted(sources.glob("*.[ch]"))]
    parts: Sequence[object] = (text, FLAGS, THREADS, _level(), compiler, about.st_size, about.st_mtime_ns)
    return hashlib.sha256(repr((parts, platform.machine(), sorted(features()) or platform.processor())).encode()).hexdigest()[:16]


@functools.cache
def features() -> frozenset[str]:
    """The processor's flags, as Linux names them; none where it does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.lower().startswith(("flags", "features"))), "").partition(":")[2].split())


def _folder() -> Path:
    """The user's own: what lies there is run."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "nmt-ablate"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _private(folder):
        raise BuildError(f"{folder} can be written by others")
    return folder


def _private(path: Path) -> bool:
    about = path.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022
