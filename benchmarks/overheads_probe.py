"""Runs one command of `nmt-ablate` and records the time of its phases; `overheads.py` starts this in a new process.

    python benchmarks/overheads_probe.py STARTED OUT.json -- run quickstart/fusion/baseline --profile smoke

STARTED: time.time() when the process was started. Seconds are exclusive: time spent in a nested phase (such as an import) counts for the
nested phase only. Only the main thread is timed.
"""

import builtins
import functools
import json
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

HEAVY = ("torch", "ray", "mlflow", "pandas", "matplotlib", "numpy", "sacrebleu", "sentencepiece", "pydantic", "rich", "typer")
PHASES = {
    "orchestrator.specs.rows": {"resolve": "resolve rows", "sweep_of": "resolve rows"},
    "orchestrator.sweeps.task": {"make_tasks": "keys and tasks"},
    "orchestrator.data.prepare": {"prepare": "data"},
    "orchestrator.training.trainer": {
        "Trainer.__init__": "model and optimiser",
        "Trainer.load_checkpoint": "checkpoints",
        "Trainer.forward_backward": "gradients",
        "Trainer.optimizer_step": "step",
    },
    "orchestrator.sweeps.row": {"_decode_and_score": "decode and score"},
    "orchestrator.tracking.sweeps": {"BackgroundProjector.stop": "MLflow: wait at the end"},
    "orchestrator.tracking.store": {"prepare_database": "MLflow: open the store", "_client": "MLflow: open the store"},
    "orchestrator.tracking.projector": {"Projector.project": "MLflow: project"},
    "orchestrator.ledger.provenance": {"collect": "capsule"},
    "ray": {"init": "ray.init", "shutdown": "ray.shutdown"},
    "orchestrator.engines.ray.experiment": {"Experiment.run": "Tune"},
}
"""Module -> function -> phase."""
HEAVY_IMPORTS = {f"import {name}" for name in HEAVY}


class Clock:
    """Exclusive seconds of nested phases of the main thread. `first_step`: time and phases up to the end of the first training step."""

    def __init__(self, started: float) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.stack, self.last, self.started, self.first_step = ["rest"], time.time(), started, None
        self.seconds["python starts"] = self.last - started

    def turn(self) -> None:
        now = time.time()
        self.seconds[self.stack[-1]] += now - self.last
        self.last = now

    def timed(self, name: str, function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            label = "first step" if name == "step" and self.first_step is None else name
            self.turn()
            self.stack.append(label)
            try:
                return function(*args, **kwargs)
            finally:
                self.turn()
                self.stack.pop()
                if label == "first step":
                    self.first_step = {"after": self.last - self.started, "seconds": dict(self.seconds)}

        return call


def watch(clock: Clock) -> None:
    """Times imports (one phase per large package, one for all others) and wraps the functions of PHASES once their modules are loaded."""
    plain, done = builtins.__import__, set()

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if threading.current_thread() is not threading.main_thread() or (name in sys.modules and done.issuperset(PHASES)):
            return plain(name, globals, locals, fromlist, level)
        top = name.partition(".")[0]
        inside = clock.stack[-1] in HEAVY_IMPORTS  # imports by a large package count as part of it
        known = top in sys.modules and (top not in ("orchestrator", "models", "ray", "mlflow") or name in sys.modules)
        if known or inside:
            module = plain(name, globals, locals, fromlist, level)
        else:
            phase = f"import {top}" if top in HEAVY else "import ours and others"
            module = clock.timed(phase, plain)(name, globals, locals, fromlist, level)
        for target in set(PHASES) - done:
            found = sys.modules.get(target)
            if found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False):
                done.add(target)
                _wrap(clock, found, PHASES[target])
        return module

    builtins.__import__ = importing


def _wrap(clock: Clock, module: Any, names: dict[str, str]) -> None:
    for path, phase in names.items():
        *owners, name = path.split(".")
        owner = module
        for part in owners:
            owner = getattr(owner, part)
        setattr(owner, name, clock.timed(phase, owner.__dict__[name]))


def main() -> None:
    started, out, _, *command = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    clock = Clock(float(started))
    watch(clock)
    from orchestrator.cli.main import run

    code = run(command)
    clock.turn()
    found = {
        "code": code,
        "seconds": dict(clock.seconds),
        "total": clock.last - clock.started,
        "first_step": clock.first_step,
        "imported": [name for name in HEAVY if name in sys.modules],
    }
    Path(out).write_text(json.dumps(found))
    sys.exit(code)


if __name__ == "__main__":
    main()
