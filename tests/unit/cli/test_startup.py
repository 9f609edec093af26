"""What a command loads: start-up stays as quick as what it has to do."""

import os
import subprocess
import sys

import pytest

from orchestrator.paths import ROOT

HEAVY = ("torch", "ray", "mlflow", "pandas", "matplotlib", "numpy")
SPECS_AND_TEXT = ("pydantic", "sacrebleu", "sentencepiece", "sacremoses")
COMPILER = ("torch._dynamo", "torch._inductor", "sympy")
LIGHT = (["--help"], ["--version"], ["list"], ["list", "dou2018/table1"], ["run", "--help"], ["status"])
SHOW = ["show", "dou2018/table1/row9"]
TRAIN = ["run", "quickstart/fusion/baseline", "--profile", "smoke", "--no-tracking"]


@pytest.mark.slow
def test_a_command_loads_what_it_needs(tmp_path) -> None:
    """One fresh process, the lightest commands first: after each, what has been loaded so far."""
    (tmp_path / "results").mkdir()
    script = f"import sys\nfrom orchestrator.cli.main import run\nfor command in {[*LIGHT, SHOW, TRAIN]!r}:\n"
    script += "    assert run(command) == 0, command\n    print('\\n@' + ' '.join(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    *light, show, train = [set(line[1:].split()) for line in done.stdout.splitlines() if line.startswith("@")]
    assert len(light) == len(LIGHT)
    for command, found in zip(LIGHT, light, strict=True):
        assert not found & {*HEAVY, *(SPECS_AND_TEXT if command in LIGHT[:2] else ())}, command
    assert not show & {"ray", "mlflow", "pandas", "matplotlib", "torch._dynamo"}
    assert "torch" in train and not train & {"ray", "mlflow", "pandas", "matplotlib", *COMPILER}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_whose_streams_are_closed_trains_all_the_same(tmp_path) -> None:
    command = f"exec '{sys.executable}' -m orchestrator run quickstart/fusion/baseline --profile smoke --no-tracking <&- >&- 2>&-"
    places = {"NMT_RESULTS": str(tmp_path / "r"), "NMT_CACHE_DIR": str(tmp_path / "c")}
    assert subprocess.run(["bash", "-c", command], env=os.environ | places, timeout=380).returncode == 0
    assert list((tmp_path / "r").glob("*/train.json"))
