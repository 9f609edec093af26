"""Which runs train as one fused job: who can, and where it pays.

Nothing is fused unless it is asked for (`--fuse auto` or `always`): a CPU run promises its bits, and fusing changes them by rounding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from orchestrator.spec import RunSpec
from orchestrator.task import Task

MODES = ("auto", "never", "always")
MOST = 8
"""Runs in one job, for the memory they take together."""

WIDEST: dict[str, int | None] = {"cpu": 64, "cuda": None}
"""Largest d_model at which `auto` fuses; None: any. cpu: measured by `benchmarks/fused_seeds.py` on one core. cuda: not measured; assumed,
for small models leave most of a GPU idle."""

ASHA_UNDER_RAY = "ASHA under Ray: a stop ends the whole trial"
VOCABULARY = 8  # sizes play no part in what can be fused


def why_not(spec: RunSpec, *, workers: int = 1) -> str | None:
    """Why runs of this spec cannot be fused with others of their shape, in one line; None where they can."""
    reason = _outside(spec, workers)
    return _unfusable(json.dumps(spec.model.model_dump(), sort_keys=True)) if reason is None else reason


def _outside(spec: RunSpec, workers: int) -> str | None:
    """What is against it whatever the network is."""
    if workers > 1:
        return f"{workers} workers: a fused job has one"
    if spec.train.compile:
        return "train.compile: the compiled network is one run's"
    if spec.train.recompute != "none":
        return f"train.recompute {spec.train.recompute}: fused runs draw dropout from streams of their own, which it cannot draw twice"
    return None


def why_not_here(
    spec: RunSpec, mode: str, device: str, *, workers: int = 1, rungs: Sequence[int] = (), engine: str = "local"
) -> str | None:
    """As `why_not`, and why the mode, the device or the scheduler is against it."""
    if mode == "never":
        return "--fuse never"
    if mode == "auto" and (reason := _not_worth(spec, device, rungs, engine)) is not None and _outside(spec, workers) is None:
        return reason  # before a model is built to look at its parts
    reason = why_not(spec, workers=workers)
    if reason is None and rungs and engine == "ray":
        reason = ASHA_UNDER_RAY
    return reason


def _not_worth(spec: RunSpec, device: str, rungs: Sequence[int], engine: str) -> str | None:
    if rungs and engine == "ray":
        return ASHA_UNDER_RAY
    if rungs:
        return "ASHA decides by order of arrival, which fusing changes"
    widest = WIDEST[device]
    if widest is not None and spec.model.d_model > widest:
        return f"d_model {spec.model.d_model}: on a {device} fusing was measured to pay up to {widest} (--fuse always fuses all the same)"
    return None


def fuse(jobs: Sequence[list[Task]], mode: str, device: str, *, engine: str = "local", slots: int = 1) -> list[list[Task]]:
    """Jobs whose runs have equal shapes, joined in order of their first; the others as they are.

    slots: how many jobs run at a time; under `auto` joining leaves at least one for each.
    """
    most = MOST if mode == "always" else min(MOST, max(1, len(jobs) // max(1, slots)))
    groups: dict[object, list[list[Task]]] = {}
    for index, job in enumerate(jobs):
        task = job[0]
        reason = why_not_here(task.run_spec, mode, device, workers=task.workers, rungs=task.rungs, engine=engine)
        groups.setdefault(index if reason is not None else _shape(task), []).append(job)
    joined = []
    for group in groups.values():
        # in parts of nearly equal size
        parts = -(-len(group) // most)
        for part in range(parts):
            joined.append([task for job in group[part * len(group) // parts : (part + 1) * len(group) // parts] for task in job])
    return joined


def is_fused(job: Sequence[Task]) -> bool:
    """Does the job hold more than one training?"""
    return len({task.train_key for task in job}) > 1


def _shape(task: Task) -> str:
    """What the runs of one job have in common."""
    spec = task.run_spec
    return json.dumps([spec.model.model_dump(), spec.data.model_dump(), spec.train.precision, spec.train.threads], sort_keys=True)


@lru_cache(maxsize=1024)
def _unfusable(model: str) -> str | None:
    import torch

    from models.fused import unfusable
    from models.transformer import build

    with torch.device("meta"):
        return unfusable(build(json.loads(model), VOCABULARY, VOCABULARY))
