"""The C of decoding as built for other processors: the same numbers. aarch64 runs in qemu, where Debian's packages are there."""

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from models import native
from models.native.build import FLAGS, BuildError, features, find_compiler

SOURCES = Path(native.__file__).parent
LEVELS = {"baseline": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
ARM, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
pytestmark = pytest.mark.slow


def answers(folder: Path, compiler: str, *options: str, run: tuple[str, ...] = ()) -> dict[str, list[np.ndarray]]:
    """What each function answers, call by call, as built by `compiler` with these options."""
    program = folder / "kernels"
    files = [*map(str, sorted(SOURCES.glob("*.c"))), str(Path(__file__).with_name("kernels.c"))]
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    command = [compiler, *flags, *options, "-fopenmp-simd", "-Werror", f"-I{SOURCES}", *files, "-o", program, "-lm", "-static"]
    subprocess.run(command, check=True)
    found: dict[str, list[np.ndarray]] = {}
    for line in subprocess.run([*run, program], check=True, capture_output=True, text=True, timeout=100).stdout.splitlines():
        name, *figures = line.split()
        found.setdefault(name, []).append(np.array(figures, dtype=float))
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict[str, list[np.ndarray]]:
    """Without any instruction that not every processor of this kind has, and without vectors made by the compiler."""
    try:
        return answers(tmp_path_factory.mktemp("plain"), find_compiler(), "-O1")
    except BuildError as error:
        pytest.skip(str(error))


def same(found: dict[str, list[np.ndarray]], expected: dict[str, list[np.ndarray]]) -> None:
    assert found.keys() == expected.keys() >= {"linear", "linear8", "attend_cells", "attend_memory", "word"}
    for name, calls in expected.items():
        for one, other in zip(found[name], calls, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512", "native"])
def test_every_level_of_this_processor_gives_the_same_numbers(tmp_path, plain, level):
    if level == "native":
        return same(answers(tmp_path, find_compiler(), "-march=native"), plain)
    needed = {"avx512": "avx512bw", "avx2": "avx2"}.get(level)
    if platform.machine() != "x86_64" or (needed is not None and needed not in features()):
        pytest.skip(f"this processor lacks {level}")
    return same(answers(tmp_path, find_compiler(), f"-march={LEVELS[level]}"), plain)


@pytest.mark.parametrize("options", [("-march=x86-64-v4",), ("-march=x86-64-v4", "-mavx512vnni")])
def test_it_builds_for_processors_that_this_is_not(tmp_path, options):
    if platform.machine() != "x86_64" or not shutil.which("gcc"):
        pytest.skip("needs gcc for x86-64")
    for file in SOURCES.glob("*.c"):
        subprocess.run(["gcc", *FLAGS, *options, "-O1", "-fopenmp", "-Werror", "-Wall", "-c", file, "-o", tmp_path / "made.o"], check=True)


def test_on_aarch64_the_numbers_are_the_same(tmp_path, plain):
    if not shutil.which(ARM) or not shutil.which(QEMU):
        pytest.skip(f"needs {ARM} and {QEMU}; Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user")
    same(answers(tmp_path, ARM, run=(QEMU,)), plain)
