"""What the projection of many runs repeats, in counts: connections to the database, specs read, and means of the overview."""

from typing import Any

import pytest

from orchestrator.ledger.records import RunReader
from orchestrator.tracking import projector
from orchestrator.tracking.projector import Projector, Shown, overview
from orchestrator.tracking.source import read_sweep
from tests.unit.tracking.reading import runs_of


def test_a_run_takes_one_connection_and_a_written_one_is_not_read_in_full(fake_results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy import event

    rows = [fake_results.row(f"row{number}") for number in range(6)]
    for row in rows:
        fake_results.finished(row, steps=2)
    sweep, connections, specs = fake_results.sweep(rows), [0], [0]
    own = Projector(fake_results.root)
    event.listen(own.store.client._tracking_client.store.engine, "connect", lambda *_: connections.append(0))
    spec = RunReader.spec
    monkeypatch.setattr(RunReader, "spec", lambda *arguments: specs.append(0) or spec(*arguments))  # type: ignore[func-returns-value]
    own.sync(sweep, live=False)
    first, read = len(connections), len(specs)
    own.sync(sweep, live=False)
    assert read > len(rows) and len(specs) == read, "a spec is read where its run is written"
    assert len(connections) - first < 10, "the second projection looks the runs up"
    assert first - (len(connections) - first) < len(rows) + 30, "MLflow itself takes 17 for each run"
    assert {run.info.status for run in runs_of(fake_results.root, sweep)} == {"FINISHED"}


def test_a_run_that_fails_in_the_middle_leaves_nothing_and_is_written_whole_later(
    fake_results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_results.finished(row := fake_results.row("row"), steps=2)
    sweep, own = fake_results.sweep([row]), Projector(fake_results.root)

    def fails(*arguments: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(projector, "write_model", fails)
        with pytest.raises(OSError, match="no space left"):
            own.sync(sweep, live=False)
    assert [run.info.run_name for run in runs_of(fake_results.root, sweep)] == ["fake sweep"]
    own.sync(sweep, live=False)
    assert sorted(run.info.run_name for run in runs_of(fake_results.root, sweep)) == ["fake sweep", "row s1"]


def test_the_overview_of_many_rows_takes_no_mean_of_a_row_that_did_not_change(fake_results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, counts = [fake_results.row(f"row{number}") for number in range(40)], [0]
    for number, row in enumerate(rows):
        fake_results.finished(row, steps=1, bleu=20 + number / 10)
    sweep = read_sweep(fake_results.root / "sweeps" / f"{fake_results.sweep(rows)}.json")
    found = [projector.read_result([fake_results.root], row, sweep) for row in sweep.rows]
    shown = [
        Shown(row.id.rpartition("/")[2], row.seed, result) for row, result in zip(sweep.rows, found, strict=True) if result is not None
    ]
    mean = projector._mean
    monkeypatch.setattr(projector, "_mean", lambda *arguments: counts.append(0) or mean(*arguments))  # type: ignore[func-returns-value]
    assert overview(sweep, shown, ["done"] * 40)[1]["row"] == "best: row39" and len(counts) < 40 * 15
