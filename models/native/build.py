"""Compiles the C files to a library for this machine's processor. The user's cache folder keeps it."""

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
"""Compiler options, tried in order, first for this processor and then for its whole architecture. The first that compiles is used."""
COMPILERS = ("cc", "gcc", "clang")
SECONDS = 300


class BuildError(Exception):
    """The library cannot be compiled here. The message is one line."""


def library(sources: Path) -> ctypes.CDLL:
    """Returns the compiled functions of the C files in `sources`. BuildError: no compiler, a failed compilation or no writable folder."""
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
    except (OSError, RuntimeError) as error:  # RuntimeError: unknown home folder
        raise BuildError(f"cannot keep or load {name}: {error}") from None


def find_compiler() -> str:
    """Returns the path of a C compiler. BuildError: none found."""
    for name in filter(None, (os.environ.get("CC"), *COMPILERS)):
        found = shutil.which(name)
        if found:
            return found
    raise BuildError(f"found no C compiler; looked for $CC, {', '.join(COMPILERS)}")


def _compile(compiler: str, sources: Path, target: Path) -> None:
    files = sorted(map(str, sources.glob("*.c")))
    levels = [(f"-march={_level()}",), *([()] if _level() == "native" else [])]  # an explicit level has no fallback
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
    """Returns the -march level: this processor (`native`), or one with fewer instructions."""
    return os.environ.get("NMT_ISA") or "native"


def _key(sources: Path, compiler: str) -> str:
    """Returns a hash of everything that determines the library: source, flags, compiler and processor."""
    about = Path(compiler).resolve().stat()
    text = [path.read_text() for path in sorted(sources.glob("*.[ch]"))]
    parts: Sequence[object] = (text, FLAGS, THREADS, _level(), compiler, about.st_size, about.st_mtime_ns)
    return hashlib.sha256(repr((parts, platform.machine(), sorted(features()) or platform.processor())).encode()).hexdigest()[:16]


@functools.cache
def features() -> frozenset[str]:
    """Returns the processor's flags by their Linux names; empty if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.lower().startswith(("flags", "features"))), "").partition(":")[2].split())


def _folder() -> Path:
    """Returns the cache folder. Only the user may write to it, because its files are executed."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "nmt-ablate"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _private(folder):
        raise BuildError(f"{folder} can be written by others")
    return folder


def _private(path: Path) -> bool:
    about = path.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022
