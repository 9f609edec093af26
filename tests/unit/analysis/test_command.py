"""`nmt-ablate analyse`: files, streams, exit codes, and MLflow."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.tracking.artifacts import log_analysis
from orchestrator.tracking.store import EXPERIMENT
from orchestrator.tracking.sweeps import reconcile
from tests.unit.tracking.reading import mlflow_client


@pytest.fixture
def analyse(lab, cli, tmp_path):
    """The command over the demo's results; files in a folder of the test."""

    def run(*arguments: str) -> tuple[int, str, str]:
        where = ["--results", lab.results, "--cache-dir", lab.cache, "--out", tmp_path / "out", "--no-tracking"]
        return cli("analyse", *arguments, *where)

    return run


@pytest.mark.parametrize(("kind", "rows"), [("length", ["base", "hier"]), ("properties", ["base", "hop3"]), ("grid", ["base"])])
def test_data_and_figure_of_each_kind(kind: str, rows: list[str], lab, analyse, tmp_path) -> None:
    code, out, err = analyse(*(f"{lab.file}#{row}" for row in rows), "--kind", kind, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert set(said) == {"kind", "columns", "records", "files", "notes"} and said["kind"] == kind
    endings = ("json", "csv") if kind in ("properties", "grid") else ("json", "csv", "png", "svg", "pdf")
    assert {ending: Path(path).name for ending, path in said["files"].items()} == {e: f"{kind}.{e}" for e in endings}
    kept = json.loads((tmp_path / "out" / f"{kind}.json").read_text())
    assert kept["records"] == said["records"] != [] and [s["id"] for s in kept["subjects"]] == [f"demo/small/{row}" for row in rows]
    with (tmp_path / "out" / f"{kind}.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == said["columns"] and len(lines) == len(said["records"])
    if "png" in endings:
        assert (tmp_path / "out" / f"{kind}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert "<svg" in (tmp_path / "out" / f"{kind}.svg").read_text()[:400]


def test_the_same_analysis_gives_the_same_bytes(lab, analyse, tmp_path) -> None:
    contents = []
    for _ in range(2):
        assert analyse(f"{lab.file}#hier", "--kind", "exploitation")[0] == 0
        contents.append({path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()})
    assert contents[0] == contents[1] and len(contents[0]) == 5


def test_nothing_is_written_into_a_run(lab, analyse) -> None:
    def seen() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in lab.results.rglob("*") if path.is_file()}

    before = seen()
    assert analyse(f"{lab.file}#base", "--kind", "accuracy")[0] == 0
    assert "properties: demo-small+" in analyse(f"{lab.file}#base,hop3", "--kind", "properties")[1], "not in place of the whole table's"
    assert seen() == before


def test_bad_input_is_one_line_and_exit_2(lab, analyse) -> None:
    for arguments, message in (
        ((f"{lab.file}#later", "--kind", "length"), "demo/small/later seed 1: found no run"),
        ((f"{lab.file}#base", "--kind", "hop"), "--kind hop: expected one of"),
        ((f"{lab.file}#base", "--kind", "length", "--option", "edges=x"), "length: edges[0]: found 'x'; expected a whole number"),
        ((f"{lab.file}#base", "--kind", "length", "--option", "edge=3"), "length: edge: unknown key; expected edges, the only name"),
    ):
        code, out, err = analyse(*arguments)
        assert code == 2 and out == "" and err.startswith("error: ") and message in err and err.count("\n") == 1


@pytest.mark.slow
def test_an_analysis_is_a_run_of_its_own(fake_results, tmp_path) -> None:
    """Logged twice it is there once, with the later files; training runs are counted as before."""
    results = fake_results.root
    fake_results.sweep([row := fake_results.row("baseline")])
    fake_results.finished(row, steps=2)
    files = [tmp_path / "length.csv", tmp_path / "length.png"]
    files[1].write_bytes(b"figure")
    for content in (b"first", b"second"):
        files[0].write_bytes(content)
        assert log_analysis(results, "length fake", "length", files, {"edges": "15"}, {"table": "fig4"}) is None
    assert reconcile(results) == (Counter(done=1), [])
    client = mlflow_client(results)
    found = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    assert Counter(each.data.tags["nmt.kind"] for each in found) == {"run": 1, "sweep": 1, "analysis": 1}
    (run,) = (each for each in found if each.data.tags["nmt.kind"] == "analysis")
    assert run.info.status == "FINISHED" and run.data.tags["nmt.analysis_kind"] == "length" and run.data.params["edges"] == "15"
    assert sorted(item.path for item in client.list_artifacts(run.info.run_id)) == ["length.csv", "length.png"]
    assert Path(client.download_artifacts(run.info.run_id, "length.csv")).read_bytes() == b"second"


def test_a_store_that_cannot_be_written_is_a_warning(tmp_path) -> None:
    file = tmp_path / "hops.csv"
    file.write_text("a\n")
    (tmp_path / "no.db").write_text("this is no database" * 100)
    warning = log_analysis(tmp_path / "results", "hops x", "hops", [file], {}, {}, uri=f"sqlite:///{tmp_path / 'no.db'}")
    assert warning is not None and warning.startswith("warning: MLflow cannot be written") and "\n" not in warning
