"""The contenders: programs (a worker script in an environment) and rows (a program with options)."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import environments
from driver import Program, Row

from models.paths import PATHS

WORKERS = Path(__file__).resolve().parent / "workers"


@dataclass(frozen=True)
class Peer:
    """A toolkit. decode: precisions of its decoding rows. mend: it uses torch's matrix products, so that the MKL remedies apply to it."""

    label: str
    trains: bool = True
    decode: tuple[str, ...] = ("fp32", "bf16")
    greedy_only: bool = False
    mend: bool = True


PEERS = {
    "opennmt-py": Peer("OpenNMT-py"),
    "sockeye": Peer("Sockeye", decode=("fp32", "int8")),
    "marian": Peer("HuggingFace Marian"),
    "joeynmt": Peer("JoeyNMT"),
    "x-transformers": Peer("x-transformers", greedy_only=True),
    "ctranslate2": Peer("CTranslate2", trains=False, decode=("fp32", "int8"), mend=False),
}

LEGEND = {
    "plain": "benchmarks/plain.py: a plain torch loop and decoder, torch's defaults",
    "ours, off": "ours with every fast path of benchmarks/switches.py off",
    "+mkl": "MKL told that this AMD CPU is one of Intel's, so that it takes its fast kernels",
    "+onednn": "fp32 products by oneDNN instead of MKL, as ours (checked to be fp32)",
    "bf16": "autocast, parameters and optimizer in fp32",
}


@dataclass(frozen=True)
class Setting:
    """Settings shared by all programs. mended: environment variables that make MKL fast, empty if none are needed or available."""

    threads: int
    environments: Path
    mended: dict[str, str]
    onednn: bool

    def program(self, name: str, *, mended: bool = False) -> Program:
        here = name in ("ours", "plain")
        interpreter = Path(sys.executable) if here else environments.python(name, self.environments)
        threads = {key: str(self.threads) for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return Program(
            name + ("+mkl" if mended else ""),
            (str(interpreter), "-P", str(WORKERS / f"{name.replace('-', '_')}.py")),
            threads | {"HF_HUB_OFFLINE": "1"} | (self.mended if mended else {}),
            "" if interpreter else f"not installed: make peers, or benchmarks/peers/environments.py {name}",
        )

    def variants(self, name: str, label: str) -> list[tuple[str, Program, dict[str, str]]]:
        """Returns fp32 as installed, and with each remedy for MKL's slow path."""
        rows: list[tuple[str, Program, dict[str, str]]] = [(label, self.program(name), {})]
        if self.onednn:
            rows.append((f"{label}+onednn", self.program(name), {"matmul": "onednn"}))
        if self.mended:
            rows.append((f"{label}+mkl", self.program(name, mended=True), {}))
        return rows


NOT_TRAINING = {"native"}
"""Fast paths that the training of this model does not use."""

DECODING = ("joint_maps", "matmul", "native", "packing")
"""Fast paths that decoding uses."""


def training_rows(setting: Setting, names: Sequence[str], precisions: Sequence[str], *, ladder: bool = False) -> list[Row]:
    """Returns the training rows. ladder: add ours without each fast path. No remedies in bf16: autocast uses oneDNN's products already."""
    rows = []
    others = {"plain": "plain"} | {name: PEERS[name].label for name in names if PEERS[name].trains}
    for precision in precisions:
        for text, on in (("ours", True), ("ours, off", False)):
            rows.append(Row(text, setting.program("ours"), {"precision": precision, "fast": on}))
        for name in sorted(set(vars(PATHS)) - NOT_TRAINING) if ladder else ():
            rows.append(Row(f"ours, no {name}", setting.program("ours"), {"precision": precision, "off": name}))
        for name, label in others.items():
            variants = setting.variants(name, label)[: None if precision == "fp32" else 1]
            rows += [Row(text, program, {"precision": precision} | options) for text, program, options in variants]
    return rows


def decoding_rows(
    setting: Setting,
    names: Sequence[str],
    beams: Sequence[int],
    precisions: Sequence[str] = ("fp32", "bf16", "int8"),
    *,
    ladder: bool = False,
) -> list[Row]:
    """Returns the decoding rows with batches of 32, and with `own` batches for toolkits that batch themselves.

    ladder: add ours without each fast path, in fp32.
    """
    rows = []
    for beam in beams:
        for precision in precisions:
            for batch in ("32", "own"):
                rows.append(Row("ours", setting.program("ours"), {"beam": beam, "batch": batch, "precision": precision, "fast": True}))
        slow = {"beam": beam, "batch": "32", "precision": "fp32"}
        rows.append(Row("ours, off", setting.program("ours"), slow | {"fast": False}))
        rows += [Row(f"ours, no {name}", setting.program("ours"), slow | {"off": name}) for name in DECODING if ladder]
        rows += _decoding(setting, "plain", Peer("plain"), beam)
        for name in names:
            if not (PEERS[name].greedy_only and beam > 1):
                rows += _decoding(setting, name, PEERS[name], beam)
    return [row for row in rows if row.options["precision"] in precisions]


def _decoding(setting: Setting, name: str, peer: Peer, beam: int) -> list[Row]:
    variants = setting.variants(name, peer.label) if peer.mend else [(peer.label, setting.program(name), {})]
    rows = [Row(text, program, {"beam": beam, "batch": "32", "precision": "fp32"} | options) for text, program, options in variants]
    rows += [Row(peer.label, setting.program(name), {"beam": beam, "batch": "32", "precision": p}) for p in peer.decode if p != "fp32"]
    if name == "ctranslate2":
        rows += [Row(peer.label, setting.program(name), {"beam": beam, "batch": "own", "precision": p}) for p in peer.decode]
    return rows
