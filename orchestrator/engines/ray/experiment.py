"""A Tune experiment to which several sweeps give their trials, so that Tune keeps a process that has imported torch between them."""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.exceptions import RayError
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.engines.ray.capacity import DRIVER
from orchestrator.engines.ray.preemption import Drained, run_task
from orchestrator.engines.ray.queue import ATTEMPTS, Job, JobQueue
from orchestrator.engines.ray.schedulers import AblationASHA, Room
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.task import Task
from orchestrator.training.metrics import RungReporter
from orchestrator.training.runtime import Runtime, best_device

Config = dict[str, Any]

MOST_TRIALS = 1000  # at a time; `Feed` gives Tune fewer


class Feed(Searcher):
    """Gives Tune the waiting trials in order, as many at a time as there is room, until it is closed."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self.room, self.live, self.waiting, self.closed = room, set[str](), deque[Config](), False

    def suggest(self, trial_id: str) -> Any:
        """Called by Tune when it has room for a trial. None: there may be one later."""
        if len(self.live) < self.room.many:
            with suppress(IndexError):  # the driver takes some back
                config = self.waiting.popleft()
                self.live.add(trial_id)
                return config
        return Searcher.FINISHED if self.closed and not self.waiting else None

    def on_trial_complete(self, trial_id: str, *arguments: Any, **options: Any) -> None:
        self.live.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Tune wants a file; what a resumed sweep needs is in the ledger."""
        Path(checkpoint_path).touch()


class Ends(TrialProgressCallback):
    """Counts trials that ended, and names those that leave a node. Ray's own callback prints a line for each at any verbosity."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.errors = 0, list[tuple[Any, str]]()

    def on_trial_complete(self, *arguments: Any, **options: Any) -> None:
        self.count += 1

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        text = Path(trial.error_file).read_text().rpartition("Failure #")[2]  # `get_error` reads a copy that is made later
        if f"{Drained.__name__}: " in text:
            print(text.partition(f"{Drained.__name__}: ")[2].splitlines()[0], file=sys.stderr, flush=True)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.errors.append((trial, str(trial.get_error()).strip().splitlines()[-1]))
        self.count += 1


def trial(config: Config) -> None:
    """One Tune trial: runs a job in this process, or drives a Train run whose workers take jobs from a queue."""
    claim = f"{ray.get_runtime_context().get_job_id()}-{tune.get_context().get_trial_id()}"
    if "queue" in config:
        from orchestrator.engines.ray import train  # takes a second to import, and other trials do not need it

        train.fit(**config, claim=claim)
        return
    device = best_device() if config["gpu"] else torch.device("cpu")
    for task in map(Task.of, config["job"]):
        if not run_task(task, Runtime(device=device, claim=claim), [RungReporter(task.name, tune.report)]):
            return


def _trial_name(trial: Any) -> str:
    if "queue" in trial.config:
        return f"train-{trial.trial_id}"
    job = trial.config["job"]
    seeds = "-".join(dict.fromkeys(str(task["seed"]) for task in job))
    return f"{job[0]['id'].replace('/', '-')}-s{seeds}"


class Experiment:
    """Runs jobs of one size, as many at a time as there is `room`, as trials in a thread until it is closed.

    path: the folder of the experiment. resources, labels: of each worker, and of its node, by Ray's names.
    """

    def __init__(self, room: Room, resources: dict[str, float], labels: dict[str, str], path: Path) -> None:
        logging.getLogger("ray.tune").setLevel(logging.ERROR)
        os.environ.setdefault("TUNE_PRINT_ALL_TRIAL_ERRORS", "0")  # tracebacks; the sweep names its failures at the end
        self.feed, self.ends, self.scheduler, self.problem = Feed(room), Ends(), AblationASHA(), list[BaseException]()
        self.room, self.given, demand = room, 0, room.demand
        workers = demand.workers if demand.fewest is None else (demand.fewest, demand.workers)
        self.slot = {"queue": path.name, "workers": workers, "resources": resources, "labels": labels}
        self.slot["storage"] = str(path.parent / "train")
        self.queue: Any = None
        if demand.workers > 1:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            self.queue = ray.remote(num_cpus=0)(JobQueue).options(name=path.name, scheduling_strategy=here).remote()
            place = tune.PlacementGroupFactory([{DRIVER: 1}])
        else:
            place = tune.PlacementGroupFactory([resources], bundle_label_selector=[labels] if labels else None)
        tuner = tune.Tuner(
            tune.with_resources(trial, place),
            tune_config=tune.TuneConfig(
                search_alg=self.feed,
                num_samples=-1,
                scheduler=self.scheduler,
                max_concurrent_trials=MOST_TRIALS,
                reuse_actors=True,  # saves the next trial the import of torch
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=tune.RunConfig(
                name=path.name,
                storage_path=str(path.parent),
                failure_config=tune.FailureConfig(max_failures=3),
                verbose=0,
                callbacks=[self.ends],
                stop=room,
            ),
        )
        self.thread = threading.Thread(target=self._fit, args=(tuner,), name="tune", daemon=True)
        self.thread.start()

    def _fit(self, tuner: tune.Tuner) -> None:
        try:
            tuner.fit()
        except BaseException as error:
            self.problem.append(error)

    def run(self, jobs: Sequence[Job], gpu: bool, asha: Asha | None, stop: Path) -> dict[str, str]:
        """Runs jobs of tasks as JSON to their end, or until the file `stop` exists. Returns the failures: task name -> reason."""
        errors, known = self.ends.errors, len(self.ends.errors)
        self.scheduler.stop, self.scheduler.asha = stop, asha
        if self.queue is None:
            self._give([{"job": job, "gpu": gpu} for job in jobs])
            self._wait(lambda: False)
            return {name: reason for trial, reason in errors[known:] for name in names_of(trial.config["job"])}
        ray.get(self.queue.add.remote(jobs, asha, stop))
        self._give([self.slot] * (len(jobs) - self.live))
        self._wait(lambda: ray.get(self.queue.left.remote([trial.trial_id for trial, _ in errors])) == 0)
        with suppress(IndexError):  # slots for which there was no room
            while True:
                self.feed.waiting.pop()
                self.given -= 1
        undone, decided = ray.get(self.queue.outcome.remote(len(jobs)))
        if asha is not None:
            asha.records = decided.records
        default = errors[-1][1] if errors[known:] else f"its workers died {ATTEMPTS} times"
        return {name: reason or default for number, reason in undone.items() for name in names_of(jobs[number])}

    @property
    def live(self) -> int:
        """Number of trials that have not ended; 0 once the experiment has."""
        return self.given - self.ends.count if self.thread.is_alive() else 0

    def _give(self, configs: Sequence[Config]) -> None:
        self.given += len(configs)
        self.feed.waiting.extend(configs)

    def _wait(self, over: Callable[[], bool]) -> None:
        """Waits until all trials have ended, or until `over` says so."""
        try:
            failed = 0
            while self.live:
                try:
                    if over():
                        break
                except RayError:  # the head does not answer; if it is gone, the watchdog ends this process
                    if (failed := failed + 1) > 600:
                        raise
                time.sleep(0.1)
        except KeyboardInterrupt:
            self.room.closed = True
            raise
        for problem in self.problem:
            raise problem

    def close(self) -> None:
        """Ends Train runs without a job, and waits until Tune has left its processes."""
        with suppress(RayError):
            None if self.queue is None else ray.get(self.queue.close.remote())
        self.feed.closed = True
        self.thread.join(timeout=3 if self.room.closed else 30)


def names_of(job: Job) -> list[str]:
    return [f"{task['id']}:{task['seed']}" for task in job]
