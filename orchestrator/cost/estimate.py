"""Cost of a row: operations by formula, time and memory from a probe of its architecture or of the nearest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orchestrator.cost import probes
from orchestrator.cost.flops import work
from orchestrator.cost.lengths import Lengths
from orchestrator.data.prepare import prepare
from orchestrator.specs.row import Row
from orchestrator.sweeps import memory, parameters
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.plan import Data, ancestors
from orchestrator.training.runtime import best_device

PROBES = 12
"""Default limit of new probes per call."""


class Costs:
    """Estimates costs of rows. results: the folder that holds the probes."""

    def __init__(self, data: Data, results: Path) -> None:
        self.data, self.results = data, results
        self.probes = probes.read_all(results)
        self._lengths = Lengths()
        self._near: dict[str, str | None] = {}

    def conditions(self, row: Row) -> dict[str, Any] | None:
        """Conditions of a probe of the row, or None if its data is not prepared."""
        assert row.spec is not None
        prepared = self.data.prepared(row.spec.data)
        return None if prepared is None else probes.conditions(row.spec, prepared.manifest, (prepared.src_size, prepared.tgt_size))

    def probe(self, rows: Sequence[Row], cache_dir: Path, most: int = PROBES, tell: Callable[[str], None] = print) -> list[str]:
        """Prepares the data of all rows and probes at most `most` of their architectures that have no probe, spread over the rows.

        Returns a line for each row whose probe failed.
        """
        lineage = [each for row in rows for each in (*ancestors(row), row) if each.spec is not None]
        for data in {row.spec.data.model_dump_json(): row.spec.data for row in lineage if row.spec is not None}.values():
            if self.data.manifest(data) is not None:
                prepare(data, self.data.data_dir, cache_dir)
        chosen, problems = self.choose(lineage, most), []
        for number, (about, row) in enumerate(chosen, start=1):
            assert row.spec is not None
            tell(f"probe {number} of {len(chosen)}: {row.id}")
            try:
                probes.make(self.results, about, row.spec, self.data.data_dir, cache_dir)
            except Exception as error:  # the process has ended, for instance because memory ran out
                problems.append(f"{row.id}: probe failed: {type(error).__name__}: {error}")
        self.probes, self._near = probes.read_all(self.results), {}
        return problems

    def choose(self, rows: Sequence[Row], most: int) -> list[tuple[dict[str, Any], Row]]:
        """At most `most` rows, each with its conditions, whose architectures differ and have no probe."""
        left: dict[str, tuple[dict[str, Any], Row]] = {}
        for row in rows:
            about = self.conditions(row)
            if about is not None and (key := probes.key_of(about)) not in self.probes:
                left.setdefault(key, (about, row))
        return list(left.values())[:: -(-len(left) // most) or 1]

    def of(self, row: Row, workers: int | None = None) -> Cost:
        """The cost of a row with this number of workers; None: its own."""
        spec, workers = row.spec, workers or row.workers
        assert spec is not None
        device = best_device().type
        devices = workers * (1 if device == "cuda" else spec.train.threads)
        prepared = self.data.prepared(spec.data)
        if prepared is None:
            there = self.data.manifest(spec.data) is not None
            return Cost("not prepared" if there else "data absent", devices, spec.train.max_steps)
        sizes = (prepared.src_size, prepared.tgt_size)
        length, of_model = self._lengths.training(spec, prepared), work(spec.model, *sizes)
        flop_update = of_model.training(length.tokens)
        flop = flop_update * length.updates
        room = memory.estimate(spec, parameters.params(spec, *sizes), sizes[1], workers=workers, device=device).total
        known: dict[str, Any] = {"updates": length.updates, "flop_update": flop_update, "flop": flop, "room": room}
        key, basis = self._nearest(row)
        if key is None:
            return Cost("not probed", devices, **known)
        measures = self.probes[key]["measures"]
        start = measures.get("start_seconds", 0.0) + length.checkpoints * measures.get("checkpoint_seconds", 0.0)
        validation = of_model.forward(self._lengths.split(prepared, "valid")) * measures["valid_seconds"] / measures["valid_flops"]
        decode = self._lengths.row_steps(prepared, spec) * measures["decode_seconds"] / measures["row_steps"]
        if basis == "estimated":
            decode *= of_model.tgt / measures["decode_weights"]
        return Cost(
            basis if workers == 1 else "estimated",
            devices,
            **known,
            train=flop * measures["train_seconds"] / measures["train_flops"] / workers,  # assumes perfect scaling over workers
            around=start + length.validations * validation / workers,
            decode=decode,
            memory=measures.get("memory") if basis == "probed" else None,
            probe=key,
        )

    def _nearest(self, row: Row) -> tuple[str | None, str]:
        mine = self.conditions(row)
        assert mine is not None
        key = probes.key_of(mine)
        if key in self.probes:
            return key, "probed"
        if key not in self._near:
            usable = [(probes.distance(mine, p["about"]), k) for k, p in self.probes.items() if probes.comparable(mine, p["about"])]
            self._near[key] = min(usable, default=(0.0, None))[1]
        return self._near[key], "estimated"
