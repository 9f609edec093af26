"""MLflow as a projection of the ledger: a parent run per sweep, a child run per row and seed.

Everything here is a function of the ledger's files and the store: writing is idempotent, and `reconcile` rebuilds what was deleted. Runs
are found by their tags (`nmt.sweep`, `nmt.run`, `nmt.ledger`); of each metric only the points after the last logged step are written. The
training loop only appends to its own files, from which a store that was down catches up later.

    state      done      stopped (ASHA)   diverged, failed   running   interrupted
    MLflow     FINISHED  FINISHED         FAILED             RUNNING   KILLED

The UI shows KILLED as a failure, which a run that ASHA stopped is not: the tag `status` says what became of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from filelock import FileLock

from orchestrator.ledger.records import STATUSES
from orchestrator.ledger.run_lock import owner
from orchestrator.ledger.run_view import in_words
from orchestrator.ledger.sweep_files import SweepRow
from orchestrator.safe_text import markdown
from orchestrator.specs.row import short_id, table_of
from orchestrator.tracking.artifacts import PAGE, copy_page, write_dataset, write_model
from orchestrator.tracking.history import Point
from orchestrator.tracking.source import RunResult, SweepRecord, read_result, read_sweep
from orchestrator.tracking.store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

STATUS = {
    "done": "FINISHED",
    "stopped": "FINISHED",
    "diverged": "FAILED",
    "failed": "FAILED",
    "running": "RUNNING",
    "interrupted": "KILLED",
}

FORMAT = 5
"""Version of the data written per run. Runs in a store with another version are written again."""


@dataclass
class _Stored:
    """A sweep's runs as found in the store, by `SweepRow.key`. names: of rows in the UI, by address."""

    parent: "Run"
    names: dict[str, str]
    runs: "dict[str, Run]" = field(default_factory=dict)
    results: list[RunResult] = field(default_factory=list)


class Projector:
    """Writes sweeps of `results` to the store at `uri` (default: `results/mlflow.db`). Not for several threads at once.

    mirrors: further read-only ledgers. written: runs so far. Methods raise the store's exceptions; the next call goes on from its content.
    """

    def __init__(
        self, results: Path, uri: str | None = None, *, mirrors: Sequence[Path] = (), progress: Callable[[int], None] | None = None
    ) -> None:
        self.results, self.roots = Path(results), [Path(results), *map(Path, mirrors)]
        self.store = MlflowStore(self.results, uri)
        self.written, self._progress = 0, progress

    def sync(self, sweep_id: str, *, live: bool = True) -> Counter[str]:
        """Updates the store for a sweep, as `project`."""
        return self.project(read_sweep(self.results / "sweeps" / f"{sweep_id}.json"), live=live)

    def project(self, sweep: SweepRecord, *, live: bool) -> Counter[str]:
        """Updates the store for a sweep. Returns the number of rows in each state.

        live: a process runs the sweep. Rows without a final state are RUNNING if it is, or if a live process holds the run's lock.
        """
        try:
            with FileLock(self.store.lock(sweep.id)):
                stored = self._look_up(sweep)
                states = [self._row(sweep, stored, row, live=live) for row in sweep.rows]
                self._parent(sweep, stored, states, live=live)
                return Counter(states)
        except BaseException:
            self.store.close()
            raise

    def _look_up(self, sweep: SweepRecord) -> _Stored:
        """Finds the sweep's runs, creates the parent, deletes duplicates, and marks runs of removed rows as superseded."""
        runs_found = self.store.find({"nmt.sweep": sweep.id})
        parents = [run for run in runs_found if run.data.tags.get("nmt.kind") == "sweep"]
        tags = {"nmt.kind": "sweep", "nmt.sweep": sweep.id, "nmt.status": "running"}
        parent = parents[0] if parents else self.store.create(sweep.name, tags, sweep.started)
        stored = _Stored(parent, row_names(sweep))
        for run in parents[1:]:
            self.store.client.delete_run(run.info.run_id)
        row_keys = {row.key for row in sweep.rows}
        for run in runs_found:
            key = run.data.tags.get("nmt.run")
            if key is None:
                continue
            if key in stored.runs:
                self.store.client.delete_run(run.info.run_id)
            elif key in row_keys:
                stored.runs[key] = run
            elif run.data.tags.get("nmt.kind") != "superseded":
                self.store.write(run, tags={"nmt.kind": "superseded", "nmt.status": "superseded", "status": "superseded"})
                if run.info.status == "RUNNING":
                    self.store.write_status(run, "KILLED")
        return stored

    def _parent(self, sweep: SweepRecord, stored: _Stored, states: list[str], *, live: bool) -> None:
        counts = Counter(states)
        open_rows = sum(counts[state] for state in ("pending", "running", "interrupted"))
        state = "done" if not open_rows else "running" if live or counts["running"] else "interrupted"
        tags = {f"nmt.{name}": str(counts[name]) for name in STATUSES}
        tags |= {"nmt.status": state, "nmt.rows": str(len(sweep.rows)), "mlflow.source.name": "nmt-ablate"}
        points, about = overview(sweep, stored.results, states)
        tags |= about | copy_page(self.store, stored.parent, sweep.id)
        self.store.write(stored.parent, points=points, tags=tags)
        end = None if state == "running" else max((result.ended for result in stored.results), default=sweep.started)
        if (stored.parent.info.status, stored.parent.info.end_time) != (STATUS[state], end):
            self.store.write_status(stored.parent, STATUS[state], end)

    def _row(self, sweep: SweepRecord, stored: _Stored, row: SweepRow, *, live: bool) -> str:
        result = read_result(self.roots, row, sweep)
        if result is None:
            return "pending"
        active = live or owner(self.results / row.train[:16] / "lock") is not None
        state = result.state if result.state in STATUSES or active else "interrupted"
        self._write(sweep, stored, result, state)
        stored.results.append(result)
        return state

    def _write(self, sweep: SweepRecord, stored: _Stored, result: RunResult, state: str) -> None:
        """Writes `nmt.projected` with the last request and then the status, so that the next call completes an interrupted one."""
        row, status = result.row, STATUS[state]
        projected = f"{FORMAT}:{state}:{result.content}"
        run = stored.runs.get(row.key)
        done = None if run is None else (run.info.status, *map(run.data.tags.get, ("nmt.projected", "nmt.kind")))
        if done == (status, projected, "run"):  # another kind: superseded since
            return
        store, name = self.store, stored.names[row.id]
        with store.transaction():
            tags = self._tags(sweep, stored, row)
            child = store.create(f"{name} s{row.seed}", tags, result.start) if run is None else run
            points, model = list(result.points), None
            if status == "RUNNING":
                store.write_status(child, status)
            else:
                store.write_artifacts(child, result.view.files)
            if state in STATUSES:
                finals = [Point(figure, rounded(value), result.ended, 0) for figure, value in result.metrics.items()]
                points = finals + points  # without a step, so that the UI draws bars
                if child.info.status in ("RUNNING", "KILLED"):  # BLEU comes first in a run that was shown while it trained, too
                    store.forget_metrics(child)
                if data := (row.record.get("spec") or {}).get("data"):
                    write_dataset(store, child, data, result.tags.get("nmt.corpus_sha256"))
                if state in ("done", "stopped") and "nmt.weights_sha256" in result.tags:
                    step = int(result.tags.get("nmt.best_step") or result.metrics.get("steps") or 0)
                    about = {key: tags[key] for key in ("nmt.sweep", "nmt.row", "nmt.seed")} | {"nmt.weights": f"{row.train[:16]}/weights"}
                    model = write_model(store, child, f"{name} s{row.seed}", step, about)
            if "nmt.reason" in child.data.tags.keys() - result.tags.keys():
                store.client.delete_tag(child.info.run_id, "nmt.reason")
            tags |= result.tags | {"nmt.status": state, "status": in_words(state, result.view.outcome.reason), "nmt.projected": projected}
            signature = {"signature": result.tags["nmt.signature"]} if "nmt.signature" in result.tags else {}
            store.write(child, points=points, spec=(row.record.get("spec") or {}) | signature, tags=tags, model=model)
            if status != "RUNNING":
                store.write_status(child, status, result.ended)
        self.written += 1
        if self._progress is not None:
            self._progress(self.written)

    def _tags(self, sweep: SweepRecord, stored: _Stored, row: SweepRow) -> dict[str, str]:
        report = f"#/experiments/{self.store.experiment}/runs/{stored.parent.info.run_id}/artifacts/{PAGE}"
        about = {name: str(row.record.get(name) or "") for name in ("paper", "table", "label")}
        tags = {
            "mlflow.parentRunId": stored.parent.info.run_id,
            "mlflow.note.content": f"{about['label']}\n\n[report of the sweep]({report})".strip(),
            "mlflow.source.name": "nmt-ablate",
            "row": stored.names[row.id],
            "nmt.kind": "run",
            "nmt.sweep": sweep.id,
            "nmt.run": row.key,
            "nmt.row": row.id,
            "nmt.seed": str(row.seed),
        } | {f"nmt.{name}": value for name, value in about.items()}
        tags |= {f"nmt.{name}_key": key or "" for name, key in row.keys.as_dict().items()}
        return {name: value for name, value in tags.items() if value}


FIGURES = ("bleu", "chrf", "valid/nll", "tokens_per_second", "params")
HEADS = ("row", "seeds", "BLEU", "chrF", "valid nll", "tokens/s", "parameters", "status")
MAX_ROWS = 100
"""Maximum number of rows with their own metric, and of rows in the description of the sweep's run."""


def row_names(sweep: SweepRecord) -> dict[str, str]:
    """Address -> name in the UI: the row, then its table where the sweep has several."""
    tables = {table_of(row.id) for row in sweep.rows}
    return {row.id: short_id(row.id) + (f" ({table_of(row.id)})" if len(tables) > 1 else "") for row in sweep.rows}


def overview(sweep: SweepRecord, results: Iterable[RunResult], states: Iterable[str]) -> tuple[list[Point], dict[str, str]]:
    """What a sweep's own run shows: the mean of each row, the best row's figures, and the table.

    It depends on the finished runs in the order of their ends, so that a store rebuilt from files has the same points.
    """
    names = row_names(sweep)
    ended = sorted((each for each in results if each.state in STATUSES), key=lambda each: (each.ended, names[each.row.id], each.row.seed))
    planned = Counter(names[row.id] for row in sweep.rows)
    by_row: dict[str, list[RunResult]] = {name: [] for name in planned}
    points, means, best = list[Point](), dict[str, float](), ""
    for number, result in enumerate(ended, 1):
        row = names[result.row.id]
        by_row[row].append(result)
        if (bleu := _mean(by_row[row], "bleu")) is not None:
            means[row] = bleu
        if means:
            best = max(filter(means.__contains__, by_row), key=means.__getitem__)
            points += [Point(name, mean, result.ended, number) for name in FIGURES if (mean := _mean(by_row[best], name)) is not None]
        last = len(by_row[row]) == planned[row]  # the mean over fewer seeds would look like a change of the row
        if last and row in means and len(by_row) <= MAX_ROWS:
            points.append(Point(f"rows/{row}", means[row], result.ended, number))
    lines, counts = [_line(row, own) for row, own in by_row.items()], Counter(states)
    status = ", ".join(f"{counts[state]} {state}" for state in dict.fromkeys((*STATUSES, *counts)) if counts[state])
    tags = {"status": status, "mlflow.note.content": _markdown(sweep, lines)}
    return points, tags | ({"row": f"best: {best}"} if best else {})


def rounded(value: float) -> float:
    """To two decimal places, from 1,000 on to none."""
    return round(value, 2) if abs(value) < 1000 else float(round(value))


def _mean(runs: list[RunResult], name: str) -> float | None:
    values = [run.figures[name] for run in runs if name in run.figures and (run.state == "done" or name != "bleu")]
    return rounded(fmean(values)) if values else None


def _line(row: str, runs: list[RunResult]) -> list[str]:
    bleu = [run.figures["bleu"] for run in runs if run.state == "done" and "bleu" in run.figures]
    spread = f" ± {stdev(bleu):.2f}" if len(bleu) > 1 else ""
    cells = [f"{fmean(bleu):.2f}{spread}" if bleu else ""]
    for name in FIGURES[1:]:
        mean = _mean(runs, name)
        cells.append("" if mean is None else f"{mean:,.0f}" if name in ("tokens_per_second", "params") else f"{mean:.2f}")
    notes = Counter(in_words(run.state, run.view.outcome.reason) for run in runs)
    status = "; ".join(note if len(runs) == 1 or len(notes) == 1 else f"{count} {note}" for note, count in notes.items())
    return [row, str(len(runs)), *cells, status or "not yet"]


def _markdown(sweep: SweepRecord, lines: list[list[str]]) -> str:
    rows = [HEADS, ["---"] + ["---:"] * 6 + ["---"], *(map(markdown, line) for line in lines[:MAX_ROWS])]
    more = f"\n\n{len(lines) - MAX_ROWS} rows more" if len(lines) > MAX_ROWS else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"`{sweep.name}`: means over seeds, of finished runs\n\n{table}{more}"
