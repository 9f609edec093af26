"""Figures, ratios, tables and JSON of competitions that never took place."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import decode
import pytest
import train
from driver import Outcome, Program, Row
from sizes import SIZES, text

ROOT = Path(__file__).resolve().parents[3]


def outcome(name: str, options: dict, rates: list[float], problem: str = "", program: str = "", **about) -> Outcome:
    rounds = [{"seconds": 2.0, "tokens": 2 * r, "sentences": 2 * r, "loss": 9.0 - i, "longest": 24} for i, r in enumerate(rates)]
    about = {"version": "1", "params": 5, "padding_share": 0.1, "batch_target_tokens": [10]} | about
    return Outcome(Row(name, Program(program or name.lower(), ()), options), about, rounds, problem)


def training() -> dict:
    fp32, bf16 = {"precision": "fp32"}, {"precision": "bf16"}
    outcomes = [
        outcome("ours", fp32 | {"fast": True}, [200, 100, 210]),
        outcome("plain", fp32, [100, 50, 100]),
        outcome("Sockeye", fp32, [80, 40, 80], differs="norms elsewhere"),
        outcome("Sockeye+mkl", fp32, [160, 80, 150], program="sockeye+mkl"),
        outcome("JoeyNMT", fp32, [], "died: MemoryError"),
        outcome("ours", bf16 | {"fast": True}, [400]),
    ]
    ground = SimpleNamespace(peak={"fp32": 100.0, "bf16": 200.0}.get)
    about = {"benchmark": "train", "size": "small", "model": {}, "rounds": 3, "seconds": 60.0, "threads": 1}
    about |= {"machine": {"cpu": "a CPU", "load": "0.1"}, "matmul_gflops": {"bf16": {"median": 100.0}}}
    return train.result(outcomes, ground, text(8000, 50), about)


def test_ratios_are_medians_of_ratios_within_a_round() -> None:
    rows = {(r["contender"], r["precision"]): r for r in training()["rows"]}
    ours = rows["ours", "fp32"]
    assert ours["over_plain_fp32"] == 2.0 == ours["over_plain"], "the slow second round hit both"
    assert ours["over_fastest_peer"] == 1.25, "the fastest is the mended one"
    assert ours["over_fastest_peer_as_installed"] == 2.5
    assert rows["ours", "bf16"]["over_plain_fp32"] == 4.0
    assert rows["ours", "bf16"]["over_plain"] is None, "nothing plain in bf16 here"
    assert ours["per_second"] == {"median": 200, "min": 100, "max": 210}
    assert ours["loss"] == {"first": 9.0, "last": 7.0, "fell": True}


def decoding() -> dict:
    base = {"batch": "32", "precision": "fp32"}
    outcomes = [
        outcome("ours", base | {"beam": 5, "fast": True}, [30]),
        outcome("plain", base | {"beam": 5}, [20]),
        outcome("CTranslate2", base | {"beam": 5}, [60]),
        outcome("CTranslate2", base | {"beam": 5, "precision": "int8"}, [120]),
        outcome("ours", base | {"beam": 1, "fast": True}, [100]),
        outcome("ours", base | {"beam": 5, "precision": "int8", "fast": True}, [], "not offered: int8"),
    ]
    ground = SimpleNamespace(peak={"fp32": 100.0, "int8": 200.0}.get)
    return decode.result(outcomes, ground, {"size": "tiny"})


@pytest.mark.slow
def test_one_command_prints_json_and_nothing_else() -> None:
    options = "--size tiny --rounds 1 --updates 1 --batch-tokens 300 --precision fp32 --json --peers sockeye --environments /nonexistent"
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks/train.py"), *options.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    found = json.loads(done.stdout)
    rows = {row["contender"]: row for row in found["rows"]}
    assert rows["ours"]["params"] == rows["plain"]["params"]
    assert rows["ours"]["per_second"]["median"] > 0 and 0 < rows["plain"]["mfu"] < 1
    assert rows["Sockeye"]["problem"].startswith("not installed")
    assert found["model"]["d_model"] == SIZES["tiny"].d_model and found["matmul_gflops"]["fp32 default"]["min"] > 0
