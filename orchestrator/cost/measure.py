"""A probe: times a few updates of the real training loop at a row's shapes.

On a CPU with one thread, seconds are CPU time, so that other load on the machine does not count.
"""

import re
import statistics
import tempfile
from pathlib import Path

import torch

from orchestrator.cost.flops import work
from orchestrator.cost.work import Tokens, Work
from orchestrator.data.batching import PAD
from orchestrator.data.prepare import prepare
from orchestrator.errors import StopTraining
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training.batches import Update
from orchestrator.training.runtime import Runtime, best_device, clock
from orchestrator.training.trainer import Trainer

WARM_UP, MIN_UPDATES, MAX_UPDATES, SECONDS = 3, 5, 40, 4.0
"""The first updates include data order, allocation and compilation, and do not count."""
NEVER = 2**31 - 1


def measure(spec: RunSpec, data_dir: Path | None, cache_dir: Path) -> dict[str, float]:
    """Measures one architecture in this process.

    Returns rate: seconds per FLOP. update: FLOP of a mean update. memory: peak bytes of the process or the device.
    """
    prepared = prepare(spec.data, data_dir, cache_dir)
    endless = {"max_steps": NEVER, "max_epochs": None, "patience": None, "validate_every": NEVER, "checkpoint_every": NEVER}
    train = spec.train.model_copy(update=endless | {"snapshots": 0, "log_gradient_norms": 0})
    bare = spec.model_copy(update={"train": train, "init_from": None})
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix=".probe-") as place:
        training = _Timed(bare, Runtime(device=best_device()), [], prepared, Store(Path(place), "0" * 64))
        training.work, training.done = work(spec.model, prepared.src_size, prepared.tgt_size), []
        training.train()
    timed = training.done[WARM_UP:]
    if torch.cuda.is_available():
        memory = int(torch.cuda.max_memory_reserved())
    else:
        status = Path("/proc/self/status").read_text()  # ru_maxrss would include the peak of the process that started this one
        memory = 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0])
    rate = statistics.median(seconds / flops for flops, seconds in timed)  # new shapes make single updates slow
    return {"rate": rate, "update": statistics.fmean(flops for flops, _ in timed), "memory": memory}


class _Timed(Trainer):
    """A training that ends after some timed updates. done: FLOP and seconds of each."""

    work: Work
    done: list[tuple[float, float]]

    def train_step(self, update: Update, schedule: Schedule) -> None:
        cpu = self.runtime.device.type == "cpu" and self.spec.train.threads == 1
        started = clock(self.runtime.device, cpu=cpu)
        super().train_step(update, schedule)
        seconds = clock(self.runtime.device, cpu=cpu) - started
        lengths = [Tokens.of(*((side != PAD).sum(1).numpy() for side in (batch.src, batch.tgt_out))) for batch in update.micro_batches]
        self.done.append((sum(self.work.training(tokens) for tokens in lengths), seconds))
        timed = self.done[WARM_UP:]
        if len(timed) >= MAX_UPDATES or (len(timed) >= MIN_UPDATES and sum(seconds for _, seconds in timed) >= SECONDS):
            raise StopTraining("measured")
