"""`status` shows what runs and the last sweeps, and finds sweeps by the addresses that commands take."""

import json
import os

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock


@pytest.fixture
def fourteen(fake_results):
    """Sweeps of the tables fake/t0 to fake/t13, the last one started last."""
    for number in range(14):
        row = fake_results.row("one") | {"id": f"fake/t{number}/one"}
        fake_results.sweep([row], f"fake-t{number}@smoke+8818a9af", name=f"fake/t{number}@smoke+8818a9af")
        os.utime(fake_results.root / "sweeps" / f"fake-t{number}@smoke+8818a9af.json", (number, number))
    return fake_results


def shown(cli, *arguments: object) -> tuple[list[str], int]:
    code, out, err = cli("status", *arguments, "--json")
    assert code == 0, err
    record = json.loads(out)
    return [sweep["sweep"].partition("@")[0] for sweep in record["sweeps"]], record["more"]


def test_the_running_and_the_last_ten_are_shown(fourteen, cli) -> None:
    with RunLock(fourteen.root / "sweeps" / "fake-t1@smoke+8818a9af.lock"):
        names, more = shown(cli, "--results", fourteen.root)
        assert "fake-t1@smoke+8818a9af: driven by process" in cli("status", "--results", fourteen.root)[1]
        assert {*names} == {"fake-t1", *(f"fake-t{n}" for n in range(4, 14))} and more == 3
    fourteen.sweep([fourteen.row("one") | {"id": f"fake/many/r{n}"} for n in range(60)], "fake-t14@smoke+8818a9af")
    _, out, err = cli("status", "--results", fourteen.root)
    assert out.count("new") == 9 + 50 and "not shown: 5 earlier sweeps and 10 runs;" in err
    (fourteen.root / "sweeps" / "half.json").write_text('{"rows": [')
    assert len(shown(cli, "--results", fourteen.root, "--all")[0]) == 15


@pytest.mark.parametrize(
    "name", ["fake/t1", "fake/t1/one", "fake/t1/one:1", "fake-t1@smoke+8818a9af", "fake/t1@smoke+8818a9af", "own.yaml"]
)
def test_a_sweep_is_found_by_address_name_and_file(fourteen, cli, monkeypatch, tmp_path, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text("source: {paper: fake, table: t1}\nrows:\n  one: {}\n")
    assert shown(cli, name, "--results", fourteen.root) == (["fake-t1"], 0), "neither fake/t10 nor fake/t11"
    code, _, err = cli("status", "fake/t99", "--results", fourteen.root)
    assert code == 2 and err.count("\n") == 1 and "fake/t99" in err, "an unknown name is one line"


def test_other_seeds_of_earlier_calls_are_shown_but_not_edited_rows(fake_results, cli) -> None:
    now, other = fake_results.row("one"), fake_results.row("one", seed=2)
    edited = fake_results.row("one", seed=3)
    edited |= {"spec": edited["spec"] | {"train": {"max_steps": 7}}}
    fake_results.sweep([now], earlier=[other, edited])
    rows = json.loads(cli("status", "fake/table1/one:2", "--results", fake_results.root, "--json")[1])["sweeps"][0]["rows"]
    assert [row["seed"] for row in rows] == [1, 2]


def test_trials_that_wait_at_a_rung_are_paused_until_the_search_has_ended(fake_results, cli) -> None:
    for row in (rows := [fake_results.row(name) for name in ("searched", "waits")]):
        fake_results.train(row, "stopped", steps=10)
    first, key = rows[0]["keys"]["train"], "a" * 64
    Ledger(fake_results.root).write_record(first, "search", key, {"key": key, "trials": [{"runs": {"1": first}}]})
    fake_results.sweep(rows, scheduler={"kind": "fifo", "rungs": [10]})
    assert "1 of 2 runs ended (1 stopped), 1 paused" in cli("status", "--results", fake_results.root)[1]
