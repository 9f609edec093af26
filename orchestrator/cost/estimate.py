"""Cost of a row: operations by formula, time and memory from a probe of its architecture, or at the rate of the nearest one.

Each probe runs in its own process. Its result is in RESULTS/probes/KEY16.json, which can be deleted at any time. The key covers everything
that determines a probe: architecture, batch, data and machine.
"""

import functools
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from orchestrator.cost.flops import work
from orchestrator.cost.work import Lengths
from orchestrator.data.prepare import prepare
from orchestrator.files.canonical import canonical, digest
from orchestrator.files.documents import read_or_tell, write_document
from orchestrator.ledger.keys import model_meaning, training_key
from orchestrator.ledger.provenance import processor
from orchestrator.specs.row import Row
from orchestrator.sweeps.plan import Data
from orchestrator.training.runtime import best_device

FORMAT = 4
"""Version of the probes, increased whenever they measure something else."""
FOLDER = "probes"
SAME = ("format", "machine", "threads", "precision", "compile", "recompute")
"""Conditions under which the rate of one architecture says something about another."""


@dataclass(frozen=True)
class Cost:
    """Cost of one training. None: not available. updates: at most (patience may end it). flop_update, flop: without validations.

    basis: probed (this architecture, here) | estimated (rate of the nearest probed one) | not probed | data absent | not prepared.
    train: seconds of updates only, as in the ledger; around: of validations. devices: GPUs, or CPU cores.
    memory: peak bytes of the probe; room: peak bytes of a worker as estimated by `memory`, without a probe.
    """

    basis: str
    devices: int
    updates: int | None = None
    flop_update: float | None = None
    flop: float | None = None
    train: float | None = None
    around: float | None = None
    memory: int | None = None
    room: int | None = None

    @property
    def seconds(self) -> float | None:
        return None if self.train is None or self.around is None else self.train + self.around

    def as_json(self) -> dict[str, Any]:
        seconds = {"train": self.train, "around": self.around, "all": self.seconds}
        return {name: getattr(self, name) for name in ("basis", "devices", "updates", "flop_update", "flop")} | {
            "seconds": {name: None if value is None else round(value, 3) for name, value in seconds.items()},
            "device_hours": None if self.seconds is None else round(self.seconds * self.devices / 3600, 6),
            "memory_bytes": self.memory,
            "memory_estimated": self.room,
        }


class Costs:
    """Estimates costs of rows. results: the folder that holds the probes."""

    def __init__(self, data: Data, results: Path) -> None:
        self.data, self.folder = data, results / FOLDER
        self.lengths = Lengths()
        self._read()

    def _read(self) -> None:
        paths = sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []
        self.probes = {record["key"]: record for path in paths if (record := read_or_tell(path)) is not None}

    def conditions(self, row: Row) -> dict[str, Any] | None:
        """Returns the conditions that determine the seconds of an update; None if the row's data is not prepared."""
        spec = row.run_spec
        if (prepared := self.data.prepared(spec.data)) is None:
            return None
        train = {name: getattr(spec.train, name) for name in ("threads", "precision", "compile", "recompute")}
        return train | {
            "format": FORMAT,
            "machine": machine(),
            "model": json.loads(canonical(model_meaning(spec.model))),
            "vocab": [prepared.src_size, prepared.tgt_size],
            "data": training_key(dict(prepared.manifest)),
            "batch": spec.batch.model_dump(mode="json"),
            "optim": [spec.optim.kind, spec.optim.clip_norm > 0, spec.optim.ema is not None],
        }

    def probe(self, rows: Sequence[Row], cache_dir: Path, most: int, tell: Callable[[str], None] = print) -> list[str]:
        """Prepares the data of all rows and probes at most `most` of their architectures that have no probe, spread over the rows.

        Returns a line for each row whose probe failed.
        """
        lineage = [each for row in rows for each in row.lineage if each.kind == "run"]
        for data in {row.run_spec.data.model_dump_json(): row.run_spec.data for row in lineage}.values():
            if self.data.manifest(data) is not None:
                prepare(data, self.data.data_dir, cache_dir)
        chosen, problems = self.choose(lineage, most), []
        for number, (about, row) in enumerate(chosen, start=1):
            tell(f"probe {number} of {len(chosen)}: {row.id}")
            try:
                self._make(about, row, cache_dir)
            except Exception as error:  # the process has ended, for instance because memory ran out
                problems.append(f"{row.id}: probe failed: {type(error).__name__}: {error}")
        self._read()
        return problems

    def choose(self, rows: Sequence[Row], most: int) -> list[tuple[dict[str, Any], Row]]:
        """Returns at most `most` rows with their conditions. Their architectures differ and have no probe."""
        left: dict[str, tuple[dict[str, Any], Row]] = {}
        for row in rows:
            about = self.conditions(row)
            if about is not None and (key := digest(about)) not in self.probes:
                left.setdefault(key, (about, row))
        return list(left.values())[:: -(-len(left) // most) or 1]

    def _make(self, about: dict[str, Any], row: Row, cache_dir: Path) -> None:
        """Measures in a separate process, because peak memory is per process, and writes the probe. Raises any exception of the process."""
        from orchestrator.cost.measure import measure  # deferred: imports the training loop

        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, initializer=os.dup2, initargs=(2, 1)) as pool:  # its output must not mix with --json
            measures = pool.submit(measure, row.run_spec, self.data.data_dir, cache_dir).result()
        self.write(about, measures)

    def write(self, about: dict[str, Any], measures: dict[str, Any]) -> None:
        write_document(self.folder / f"{digest(about)[:16]}.json", {"about": about, "measures": measures}, digest(about))

    def of_all(self, rows: Sequence[Row]) -> dict[str, Cost]:
        """Costs of the rows and of the rows that they start from, by id."""
        by_id = {each.id: each for row in rows for each in row.lineage if each.kind == "run"}
        return {name: self.of(row) for name, row in by_id.items()}

    def of(self, row: Row) -> Cost:
        spec, workers = row.run_spec, row.most_workers
        device = best_device().type
        devices = workers * (1 if device == "cuda" else spec.train.threads)
        prepared = self.data.prepared(spec.data)
        if prepared is None:
            there = self.data.manifest(spec.data) is not None
            return Cost("not prepared" if there else "data absent", devices, spec.train.max_steps)
        sizes = (prepared.src_size, prepared.tgt_size)
        length, of_model = self.lengths.training(spec, prepared), work(spec.model, *sizes)
        update = of_model.training(length.tokens)
        flop = update * length.updates
        room = self.data.memory(spec, workers, device)
        known: dict[str, Any] = {"updates": length.updates, "flop_update": update, "flop": flop, "room": room}
        about = self.conditions(row)
        assert about is not None
        probe = self.probes.get(digest(about))
        measures = self._nearest(about, update) if probe is None else probe["measures"]
        if measures is None:
            return Cost("not probed", devices, **known)
        basis = "estimated" if probe is None or workers > 1 else "probed"
        rate = measures["rate"] / workers  # assumes perfect scaling over workers
        around = length.validations * of_model.forward(self.lengths.split(prepared, "valid")) * rate
        return Cost(basis, devices, **known, train=flop * rate, around=around, memory=measures["memory"] if basis == "probed" else None)

    def _nearest(self, about: dict[str, Any], update: float) -> dict[str, Any] | None:
        """Measures of the probe, made under such conditions here, whose updates take the most similar number of operations."""
        usable = [each["measures"] for each in self.probes.values() if all(each["about"].get(name) == about[name] for name in SAME)]
        return min(usable, key=lambda measures: abs(math.log(measures["update"] / update)), default=None)


@functools.cache
def machine() -> dict[str, Any]:
    """Type and name of the device used for training here, and the version of torch."""
    device = best_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "torch": str(torch.__version__)}
