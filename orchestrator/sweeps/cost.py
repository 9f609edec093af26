"""Costs of rows and plans, estimated by `orchestrator.cost`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Cost of one training, its decoding and scoring. None: not available. flop*: training only. updates: at most (patience may end it).

    basis: probed (this architecture, here) | estimated (rate of the nearest probed one) | not probed | data absent | not prepared.
    train: seconds of updates only, as in the ledger; around: validations, checkpoints, start-up. devices: GPUs, or CPU cores.
    memory: peak bytes of the probe; room: peak bytes of a worker as estimated by `memory`, without a probe.
    """

    basis: str
    devices: int
    updates: int | None = None
    flop_update: float | None = None
    flop: float | None = None
    train: float | None = None
    around: float | None = None
    decode: float | None = None
    memory: int | None = None
    room: int | None = None
    probe: str | None = None

    @property
    def training_seconds(self) -> float | None:
        return None if self.train is None or self.around is None else self.train + self.around

    @property
    def seconds(self) -> float | None:
        return None if self.training_seconds is None or self.decode is None else self.training_seconds + self.decode

    @property
    def hours(self) -> float | None:
        """Device-hours of GPUs, or of CPU cores."""
        return None if self.seconds is None else self.seconds * self.devices / 3600

    def as_json(self) -> dict[str, Any]:
        rounded = {name: None if (value := getattr(self, name)) is None else round(value, 3) for name in ("train", "around", "decode")}
        return {
            "basis": self.basis,
            "devices": self.devices,
            "updates": self.updates,
            "flop_update": self.flop_update,
            "flop": self.flop,
            "seconds": rounded | {"all": None if self.seconds is None else round(self.seconds, 3)},
            "device_hours": None if self.hours is None else round(self.hours, 6),
            "memory_bytes": self.memory,
            "memory_estimated": self.room,
        }


@dataclass
class Sum:
    """trainings, decodings, scorings: counts. flop: of trainings. hours: device-hours of all with an estimate; unknown: trainings and
    decodings without one."""

    trainings: int = 0
    decodings: int = 0
    scorings: int = 0
    flop: float = 0.0
    hours: float = 0.0
    unknown: int = 0

    def add(self, kind: str, cost: Cost | None) -> None:
        """Adds a training, decoding or scoring; the time of a scoring is not counted."""
        if kind == "score":
            self.scorings += 1
            return
        seconds = None if cost is None else cost.training_seconds if kind == "train" else cost.decode
        if kind == "train":
            self.trainings += 1
            self.flop += (cost.flop if cost is not None else None) or 0.0
        else:
            self.decodings += 1
        if cost is None or seconds is None:
            self.unknown += 1
        else:
            self.hours += seconds * cost.devices / 3600

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "hours": round(self.hours, 6)}
