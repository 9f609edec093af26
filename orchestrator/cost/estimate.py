"""What a row costs: operations from the equations, time and memory from probes of its own architecture or of the nearest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cost import about as abouts
from orchestrator.cost import cache
from orchestrator.cost.flops import work
from orchestrator.files.canonical import digest
from orchestrator.specs.memoise import memoised
from orchestrator.sweeps.cost import Cost

if TYPE_CHECKING:
    from orchestrator.cost.lengths import Lengths
    from orchestrator.data.store import Prepared
    from orchestrator.specs.row import Row
    from orchestrator.sweeps.plan import Data


class Costs:
    """Costs of rows. `results`: where the probes are."""

    def __init__(self, data: Data, results: Path) -> None:
        self.data, self.results = data, results
        self.probes = cache.read_all(results)
        self._lengths: Lengths | None = None
        self._prepared: dict[Any, Prepared | None] = {}
        self._near: dict[str, str | None] = {}
        self._nothing: dict[tuple[str, int, int | None], Cost] = {}

    def of(self, row: Row, workers: int | None = None, without: str | None = None) -> Cost:
        """`without`: a probe that counts as not there (what the estimate would be without it)."""
        return self._of(row, row.workers if workers is None else workers, without)

    def about(self, row: Row) -> dict[str, Any] | None:
        """What a probe of the row would be of; None where its data is not there or not prepared."""
        assert row.spec is not None
        prepared = self.prepared(row)
        return None if prepared is None else abouts.about(row.spec, prepared.manifest, (prepared.src_size, prepared.tgt_size))

    def prepared(self, row: Row) -> Prepared | None:
        assert row.spec is not None
        key = memoised("manifest", row.spec.data, row.spec.data.model_dump_json)
        if key not in self._prepared:
            self._prepared[key] = self.data.prepared(row.spec.data)
        return self._prepared[key]

    def forget(self) -> None:
        """What was worked out so far, for data was prepared since."""
        self._prepared.clear()
        self._near.clear()

    def _of(self, row: Row, workers: int, without: str | None) -> Cost:
        from orchestrator.cost.lengths import Lengths
        from orchestrator.sweeps import parameters
        from orchestrator.sweeps.memory import estimate as memory_of
        from orchestrator.training.runtime import best_device

        spec = row.spec
        assert spec is not None
        devices = workers * (1 if best_device().type == "cuda" else spec.train.threads)
        prepared = self.prepared(row)
        if prepared is None:
            there = self.data.manifest(spec.data) is not None
            about = ("not prepared" if there else "data absent", devices, spec.train.max_steps)
            return self._nothing.setdefault(about, Cost(*about))
        sizes = (prepared.src_size, prepared.tgt_size)
        self._lengths = self._lengths or Lengths()
        length, of_model = self._lengths.training(spec, prepared), work(spec.model, *sizes)
        flop_update = of_model.training(length.tokens)
        known: dict[str, Any] = {
            "updates": length.updates,
            "flop_update": flop_update,
            "flop": flop_update * length.updates,
        }
        device = best_device().type
        known["room"] = memory_of(spec, parameters.params(spec, *sizes), sizes[1], workers=workers, device=device).total
        key, basis = self._nearest(row, without)
        if key is None:
            return Cost("not probed", devices, **known)
        measures = self.probes[key]["measures"]
        scale = measures["train_seconds"] / measures["train_flops"] / workers  # of several workers as if they lost no time together
        start = measures.get("start_seconds", 0.0) + length.checkpoints * measures.get("checkpoint_seconds", 0.0)
        validation = of_model.forward(self._lengths.split(prepared, "valid")) * measures["valid_seconds"] / measures["valid_flops"]
        decode = self._lengths.row_steps(prepared, spec) * measures["decode_seconds"] / measures["row_steps"]
        if basis == "estimated":
            decode *= of_model.tgt / measures["decode_weights"]
        memory = measures.get("memory") if basis == "probed" else None
        return Cost(
            basis if workers == 1 else "estimated",
            devices,
            **known,
            train=known["flop"] * scale,
            around=start + length.validations * validation / workers,
            decode=decode,
            memory=memory,
            probe=key,
            others=measures.get("others"),
        )

    def _nearest(self, row: Row, without: str | None) -> tuple[str | None, str]:
        mine = self.about(row)
        assert mine is not None
        key = abouts.key_of(mine)
        if key in self.probes and key != without:
            return key, "probed"
        place = digest([key, without])
        if place not in self._near:
            others = [(abouts.distance(mine, p["about"]), k) for k, p in self.probes.items() if k != without]
            others = [(d, k) for d, k in others if abouts.comparable(mine, self.probes[k]["about"])]
            self._near[place] = min(others, default=(0.0, None))[1]
        return self._near[place], "estimated"
