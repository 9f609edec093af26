"""Whether the sentences of the data have positions in a model that has learned so many."""

from __future__ import annotations

from orchestrator.data.prepare import Prepared
from orchestrator.errors import UserError
from orchestrator.sweeps.task import Task


def check_longest(task: Task, prepared: Prepared) -> None:
    """UserError naming the longest sentence that the row's model has no positions for: of the training, of validation, of a test source."""
    spec = task.run_spec
    if spec.model.positions != "learned":
        return
    tests = dict.fromkeys(scoring.spec.test for scoring in task.scorings.values())
    for split in dict.fromkeys(("train", "valid", *tests)):
        pairs = prepared.pairs(split)
        lengths = [pairs.src_lengths, *([pairs.tgt_lengths] if split in ("train", "valid") else [])]
        longest = 1 + max(int(side.max(initial=0)) for side in lengths)
        if longest > spec.model.max_positions:
            most = f"expected at most {spec.model.max_positions}, model.max_positions (data.truncate cuts longer ones)"
            raise UserError(f"{task.id}: {split}: found a sentence of {longest} subwords with its EOS; {most}")
