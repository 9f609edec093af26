"""What one sees of a running sweep: how far its rows are, when it ends, and what it prints."""

import io

from rich.console import Console

from orchestrator.files.documents import write_document
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.sweeps.asha import KEY
from orchestrator.sweeps.forecast import Forecast, RunProgress, Tail, duration, forecast, summary
from orchestrator.sweeps.live import LiveProgress
from orchestrator.sweeps.status import runs_table, sweep_status


def progress(row: str, status: str, steps: int = 0, rate: float | None = None, **more) -> RunProgress:
    return RunProgress(row, 1, {"": Keys("0" * 64, "1" * 64, None)}, status=status, steps=steps, total=100, rate=rate, **more)


def test_the_forecast_takes_a_rows_own_speed_then_its_other_seeds_then_the_mean() -> None:
    slow, fast = progress("t/a/slow", "running", 50, 4.0, devices=2), progress("t/a/fast", "running", 90, 1.0)
    again, other = progress("t/a/slow", "waiting"), progress("t/a/other", "waiting")
    ahead = forecast([slow, fast, again, other, progress("t/a/ended", "stopped", 20)])
    seconds = [50 * 4, 10 * 1, 100 * 4, 100 * 2.5]
    assert ahead.training and ahead.device_seconds == sum(seconds) + seconds[0]
    assert ahead.seconds == sum(seconds) / 2, "two run side by side"
    alone = forecast([slow, progress("t/a/long", "waiting", rate=9.0)])
    assert alone.seconds == 200 + 900, "one runs at a time"
    assert "; about 18 min of training left (until " in summary(["running"], alone)
    scored = progress("t/a/long", "done", 100, decoding=30.0)
    assert forecast([slow, scored]) == Forecast(230.0, 460.0), "training and decoding"
    assert forecast([progress("t/a/new", "waiting")]) == Forecast(None, None) and forecast([]) == Forecast(0.0, 0.0)
    assert [duration(s) for s in (45, 700, 11_100)] == ["45 s", "12 min", "3 h 05 min"]
    assert "after the first reports" in summary(["waiting"], Forecast(None, None))


def test_a_run_that_resumes_is_timed_anew() -> None:
    run = progress("t/a/b", "running")
    whole = {"total_steps": 40}
    for step, now, more in ((0, 0.0, whole), (10, 20.0, {}), (10, 500.0, whole), (20, 510.0, {"train/nll": 2.5})):
        run.add({"step": step, "t": now} | more)
    assert (run.rate, run.left, run.note) == (1.0, 20, "nll 2.50")


def test_status_tells_speed_loss_bleu_and_what_asha_stopped(fake_results) -> None:
    _, rows = fake_results.typical()
    fake_results.history(rows["cut"], 4, 4, **{"valid/nll": 2.5, "train/tokens_per_second": 900.0, "total_steps": 12})
    decisions = {"eta": 3.0, "sign": -1.0, "rungs": {"3": [{"run": "fake/table1/cut:1", "value": 3.0, "continue": False}]}}
    write_document(fake_results.root / "sweeps" / "sweep-1.asha.json", decisions, KEY)
    (sweep,) = sweep_status(Ledger(fake_results.root))
    found = {row["id"].rpartition("/")[2]: row for row in sweep.as_json()["rows"]}
    assert {name: row["status"] for name, row in found.items()} == {
        "baseline": "done", "dense": "done", "linear": "stopped", "mlrf": "diverged", "cut": "stopped", "later": "new",
    }  # fmt: skip
    assert found["dense"]["bleu"] == 28.42 and (found["cut"]["valid_nll"], found["cut"]["tokens_per_second"]) == (2.5, 900.0)
    assert "5 of 6 runs ended (2 done, 2 stopped, 1 diverged), 1 waiting" in sweep.summary
    screen = io.StringIO()
    Console(file=screen, width=80).print(runs_table(sweep.runs, sweep.summary))
    assert "│ dense    │    1 │ done     │    20 │" in screen.getvalue()


def test_without_a_terminal_a_run_tells_its_start_and_then_how_far_it_is(fake_results, monkeypatch) -> None:
    row = fake_results.row("cut")
    screen, run = io.StringIO(), RunProgress(row["id"], 1, {"": Keys(**row["keys"])}, total=40)
    live = LiveProgress([], Console(file=screen, width=200), Ledger(fake_results.root))
    live.runs["cut:1"], live.tails["cut:1"] = run, Tail(fake_results.run_dir(row) / "history.jsonl")
    fake_results.history(row, 1, 3)
    with RunLock(fake_results.run_dir(row) / "lock"):
        fake_results.history(row, 4, 4, **{"valid/nll": 2.5})
        live._poll()
        live._poll()
        assert screen.getvalue() == "cut:1: running\ncut:1: step 4/40  valid 2.50\n", "once, and nothing more within the half minute"
        live._told -= 30
        live._poll()
    assert screen.getvalue().splitlines()[2].startswith("cut:1 step 4/40; 0 of 1 runs ended, 1 running; ")


def test_a_run_that_is_tried_again_has_not_ended(fake_results) -> None:
    row, ledger = fake_results.row("again", failed_below=30.0), Ledger(fake_results.root)
    fake_results.sweep([row])
    fake_results.train(row, "failed", steps=0)
    run = RunProgress(row["id"], 1, {"": Keys(**row["keys"])}, 30.0, total=40, stopped_at=0)
    with RunLock(fake_results.run_dir(row) / "lock"):
        (sweep,) = sweep_status(Ledger(fake_results.root))
    assert not run.look(ledger) and (run.status, sweep.runs[0].status) == ("waiting", "running")
    fake_results.train(row, "stopped", steps=20)
    trial = RunProgress(row["id"], 1, {"": Keys(**row["keys"])}, total=40, until=20)
    assert trial.look(ledger) and not trial.look(ledger) and "0 of 1 runs ended, 1 paused; " in summary([trial.status], forecast([trial]))
    fake_results.train(row, steps=0)
    fake_results.score(row)
    assert run.look(ledger) and run.status == "failed", "by the row's own bound, of a training that was there"
