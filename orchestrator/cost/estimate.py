"""Cost of a row: operations by formula, time and memory from a probe of its architecture or of the nearest one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.cost import probes
from orchestrator.cost.flops import work
from orchestrator.cost.lengths import Lengths
from orchestrator.data.store import Prepared
from orchestrator.specs.row import Row
from orchestrator.sweeps import memory, parameters
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.plan import Data
from orchestrator.training.runtime import best_device


class Costs:
    """Estimates costs of rows. `results`: the folder that holds the probes."""

    def __init__(self, data: Data, results: Path) -> None:
        self.data, self.results = data, results
        self.probes = probes.read_all(results)
        self._lengths = Lengths()
        self._prepared: dict[Any, Prepared | None] = {}
        self._near: dict[tuple[str, str | None], str | None] = {}

    def of(self, row: Row, workers: int | None = None, without: str | None = None) -> Cost:
        """The cost of a row. `without`: key of a probe to ignore."""
        return self._estimate(row, row.workers if workers is None else workers, without)

    def conditions(self, row: Row) -> dict[str, Any] | None:
        """Conditions of a probe of the row, or None if its data is not prepared."""
        assert row.spec is not None
        prepared = self.prepared(row)
        return None if prepared is None else probes.conditions(row.spec, prepared.manifest, (prepared.src_size, prepared.tgt_size))

    def prepared(self, row: Row) -> Prepared | None:
        """The prepared data of a row, or None; memoised."""
        assert row.spec is not None
        key = row.spec.data.model_dump_json()
        if key not in self._prepared:
            self._prepared[key] = self.data.prepared(row.spec.data)
        return self._prepared[key]

    def forget(self) -> None:
        """Drops memoised values after data was prepared."""
        self._prepared.clear()
        self._near.clear()

    def _estimate(self, row: Row, workers: int, without: str | None) -> Cost:
        spec = row.spec
        assert spec is not None
        devices = workers * (1 if best_device().type == "cuda" else spec.train.threads)
        prepared = self.prepared(row)
        if prepared is None:
            there = self.data.manifest(spec.data) is not None
            return Cost("not prepared" if there else "data absent", devices, spec.train.max_steps)
        sizes = (prepared.src_size, prepared.tgt_size)
        length, of_model = self._lengths.training(spec, prepared), work(spec.model, *sizes)
        flop_update = of_model.training(length.tokens)
        known: dict[str, Any] = {
            "updates": length.updates,
            "flop_update": flop_update,
            "flop": flop_update * length.updates,
        }
        params, device = parameters.params(spec, *sizes), best_device().type
        known["room"] = memory.estimate(spec, params, sizes[1], workers=workers, device=device).total
        key, basis = self._nearest(row, without)
        if key is None:
            return Cost("not probed", devices, **known)
        measures = self.probes[key]["measures"]
        scale = measures["train_seconds"] / measures["train_flops"] / workers  # assumes perfect scaling over workers
        start = measures.get("start_seconds", 0.0) + length.checkpoints * measures.get("checkpoint_seconds", 0.0)
        validation = of_model.forward(self._lengths.split(prepared, "valid")) * measures["valid_seconds"] / measures["valid_flops"]
        decode = self._lengths.row_steps(prepared, spec) * measures["decode_seconds"] / measures["row_steps"]
        if basis == "estimated":
            decode *= of_model.tgt / measures["decode_weights"]
        return Cost(
            basis if workers == 1 else "estimated",
            devices,
            **known,
            train=known["flop"] * scale,
            around=start + length.validations * validation / workers,
            decode=decode,
            memory=measures.get("memory") if basis == "probed" else None,
            probe=key,
            others=measures.get("others"),
        )

    def _nearest(self, row: Row, without: str | None) -> tuple[str | None, str]:
        mine = self.conditions(row)
        assert mine is not None
        key = probes.key_of(mine)
        if key in self.probes and key != without:
            return key, "probed"
        if (key, without) not in self._near:
            others = [(probes.distance(mine, p["about"]), k) for k, p in self.probes.items() if k != without]
            others = [(d, k) for d, k in others if probes.comparable(mine, self.probes[k]["about"])]
            self._near[key, without] = min(others, default=(0.0, None))[1]
        return self._near[key, without], "estimated"
