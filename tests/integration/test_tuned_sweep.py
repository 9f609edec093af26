"""`sweep --tune` end to end: killed drivers, both engines, and what other commands make of the tuned rows."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orchestrator.api as nmt
from orchestrator.paths import ROOT
from tests.command import call, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPEC = """
source: {paper: try, table: tuned}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
batch: {unit: tokens, size: 200}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
optim: {schedule: {kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}, label_smoothing: 0.1}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 10}
decode: {beam_size: 1, max_length: 20}
claims:
  - {row: slow, metric: nll, effect: -0.5}
tune:
  trials: 4
  space: {optim.schedule.lr: {factor: {loguniform: [1.0, 8.0]}}}
  seeds: {search: [101], judge: [1, 2]}
  stop: {rungs: [20]}
rows:
  base: {pinned: true}
  slow: {optim: {schedule: {lr: 1.0e-3}}}
"""


def words(folder: Path, *more: str, spec: str = SPEC) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "tuned.yaml").write_text(spec, encoding="utf-8")
    places = ["--results", str(folder / "results"), "--cache-dir", str(folder.parent / "cache")]
    return ["sweep", str(folder / "tuned.yaml"), "--tune", "--no-tracking", "--json", *places, *(more or ("--engine", "local"))]


@pytest.fixture(scope="module")
def finish(cli: Any) -> Callable[..., dict[str, Any]]:
    """{"searches": row -> what its search decided, "runs": (row, seed) -> figures} of a sweep run to its end, here if without Ray."""

    def run(folder: Path, *more: str, spec: str = SPEC) -> dict[str, Any]:
        code, out, err = (call if "ray" in more else cli)(*words(folder, *more, spec=spec))
        assert code == 0, err[-3000:]
        runs = {(record["id"], record["seed"]): record for record in map(json.loads, out.splitlines())}
        fields = ("status", "steps", "weights_sha256", "bleu", "keys")
        return {"searches": searches(folder), "runs": {name: {field: r[field] for field in fields} for name, r in runs.items()}}

    return run


def searches(folder: Path) -> dict[str, Any]:
    records = [json.loads(path.read_text()) for path in folder.glob("results/*/search/*.json")]
    for record in records:
        for trial in record["trials"]:
            del trial["seconds"]
    return {record["row"]: {name: record[name] for name in ("key", "tune", "trials", "chosen", "updates")} for record in records}


def steps(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("results/*/journal.jsonl"))


@pytest.fixture(scope="module")
def golden(finish: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("tuned") / "golden"
    return folder, finish(folder)


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "before the first rung": lambda folder: steps(folder) >= 10,
    "in the last phase": lambda folder: any("weights_sha256" in path.read_text() for path in folder.glob("results/*/train.json")),
    "during judging": lambda folder: any(folder.glob("results/sweeps/*-tuned.json")),
}
"""Each holds from its moment on."""


@pytest.mark.chaos
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_driver_changes_no_choice_and_no_figure(golden: tuple[Path, dict[str, Any]], moment: str, finish: Any) -> None:
    folder = golden[0].parent / moment.replace(" ", "-")
    process = start(*words(folder))
    while not MOMENTS[moment](folder) and process.poll() is None:
        time.sleep(0.02)
    assert process.poll() is None, "the sweep ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert finish(folder) == golden[1]
    assert steps(folder) <= steps(golden[0]) + 10, "more than the updates since the last checkpoint were repeated"


def test_equal_work_is_done_once(golden: tuple[Path, dict[str, Any]], finish: Any) -> None:
    before = steps(golden[0])
    trials = [trial for search in golden[1]["searches"].values() for trial in search["trials"]]
    assert [sorted(trial["scores"]) for trial in trials] == [["bleu", "chrf", "nll"] if trial["ended"] is None else [] for trial in trials]
    assert finish(golden[0]) == golden[1] and steps(golden[0]) == before
    pages = (golden[0] / "results").glob("reports/*.html")  # MLflow takes it into the run of the sweep of this name
    assert [page.stem for page in pages] == [path.stem for path in (golden[0] / "results").glob("sweeps/*-tuned.json")]
    copied = shutil.copytree(golden[0], golden[0].parent / "more seeds")
    more = finish(copied, "--engine", "local", "--seeds", "1-3")
    assert more["searches"] == golden[1]["searches"] and {seed for _, seed in more["runs"]} == {1, 2, 3}
    assert steps(copied) == before + 2 * 40, "the search and its choice stay; the third seed trains"


def test_several_processes_choose_the_same(golden: tuple[Path, dict[str, Any]], finish: Any) -> None:
    assert finish(golden[0].parent / "jobs", "--engine", "local", "--jobs", "2") == golden[1]


@pytest.mark.ray
def test_ray_chooses_the_same(golden: tuple[Path, dict[str, Any]], finish: Any) -> None:
    assert finish(golden[0].parent / "ray", "--engine", "ray") == golden[1]


@pytest.mark.ray
def test_both_workers_of_a_run_stop_at_the_rung(tmp_path: Path, finish: Any) -> None:
    worse = {
        "trials: 4": "trials: 2",
        "loguniform: [1.0, 8.0]": "choice: [0.001, 0.002]",
        "judge: [1, 2]": "judge: [1]",
        "slow: {": "slow: {workers: 2, ",
    }
    spec = SPEC.replace("  base: {pinned: true}\n", "")
    spec = re.sub(r"claims:\n.*\n", "", spec)
    for old, new in worse.items():
        assert old in spec
        spec = spec.replace(old, new)
    folder = tmp_path / "workers"
    found = finish(folder, "--engine", "ray", spec=spec)
    trains = [json.loads(path.read_text()) for path in folder.glob("results/*/train.json")]
    assert sorted((record["status"], record["steps"], record["world_size"]) for record in trains) == [("done", 40, 2)] * 2 + [
        ("stopped", 20, 2)
    ]
    assert {figures["status"] for figures in found["runs"].values()} == {"done"}
    assert len(list(folder.glob("results/ray/train/*"))) == 1, "the search and the sweep of its choice share a Train run"


def test_a_search_reads_no_test_set_and_its_rows_are_rows_like_others(
    golden: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    folder, found = golden
    monkeypatch.chdir(tmp_path)
    file = str(folder / "tuned.yaml")
    judged = {(figures["keys"]["train"]) for figures in found["runs"].values()}
    assert set(found["runs"]) == {(f"try/tuned/{row}@tuned", seed) for row in ("base", "slow") for seed in (1, 2)}
    scored = {path.parent.parent.name: json.loads(path.read_text())["score"].get("test") for path in folder.glob("results/*/score/*.json")}
    tested = {run for run, test in scored.items() if test != "valid"}
    assert tested == {key[:16] for key in judged}, "a search has read the test set"
    finished = [trial for record in found["searches"].values() for trial in record["trials"] if trial["ended"] is None]
    assert scored.keys() - tested == {trial["runs"]["101"][:16] for trial in finished}
    assert len(list(folder.glob("results/*/decode/*.json"))) == len(scored), "each was translated once"
    assert len(list(folder.glob("results/*/train.json"))) == 4 * 2 + 2 * 2

    def called(*arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        cache = [] if arguments[0] in ("results", "gc") else ["--cache-dir", folder.parent / "cache"]
        code, out, err = cli(*arguments, "--results", folder / "results", *cache)
        assert code in codes, err
        return out

    shown = called("show", f"{file}#slow@tuned")
    record = next(
        each for each in map(json.loads, (p.read_text() for p in folder.glob("results/*/search/*.json"))) if each["row"].endswith("slow")
    )
    rate = record["trials"][record["chosen"]]["changes"].get("optim.schedule.lr", 1.0e-3)
    assert f"lr: {rate}" in shown
    again = called("run", f"{file}#slow@tuned", "--seed", "1", "--no-tracking", "--engine", "local", "--json")
    assert json.loads(again.splitlines()[-1])["keys"] == found["runs"]["try/tuned/slow@tuned", 1]["keys"]

    assert "try/tuned, tuned" in called("table", file)
    as_written = ("translate", f"{file}#slow", "--results", folder / "results", "--cache-dir", folder.parent / "cache", "--seed", "1")
    assert "or try/tuned/slow@tuned, as its search has chosen it" in cli(*as_written)[2]
    verdicts = [json.loads(line) for line in called("verdict", file, "--json", codes=(6, 7)).splitlines()]
    assert {each["configuration"] for each in verdicts} == {"as written", "tuned"}
    assert {each["verdict"] for each in verdicts if each["configuration"] == "as written"} == {"not run"}

    where: Any = {"results": folder / "results", "cache_dir": folder.parent / "cache"}
    compared = nmt.compare(f"{file}#slow@tuned", f"{file}#base@tuned", **where)
    assert (compared.a, compared.b, compared.seeds) == ("try/tuned/slow@tuned", "try/tuned/base@tuned", (2, 2))
    assert nmt.compare(f"{file}#slow@tuned", f"{file}#slow", **where).verdict == "not run"
    assert list(nmt.results(f"{file}#slow@tuned", **where).status) == ["done"] * 2
    assert nmt.load(f"{file}#slow@tuned", **where).translate(["a"]) and len(nmt.hypotheses(f"{file}#slow@tuned", **where)) == 40
    assert json.loads(called("repro", f"{file}#slow@tuned", "--json"))["verdict"] == "same bits"
    called("export", f"{file}#slow@tuned", "--to", str(tmp_path / "model"))
    assert "slow@tuned" in (tmp_path / "model/README.md").read_text()

    planned, new = (json.loads(called("plan", file, "--tune", "--json", "--set", f"model.d_ff={width}")) for width in (32, 72))
    assert new["search"] | {"hours": 0} == {"arms": 2, "searched": 0, "trials": 4, "trainings": 8, "whole_trainings": 7.0, "hours": 0}
    assert (planned["search"]["searched"], planned["search"]["trainings"], planned["totals"]["done"]) == (2, 0, 4)

    called("results", "export", str(tmp_path / "packed"), "--sweep", "try-tuned-tuned")
    for number, source in enumerate((folder / "results", tmp_path / "packed")):
        other = tmp_path / f"imported{number}"
        assert cli("results", "import", source, "--results", other)[0] == 0
        assert cli("show", f"{file}#slow@tuned", "--results", other, "--cache-dir", folder.parent / "cache")[:2] == (0, shown)


def test_controls_are_tuned_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    changes = {"max_steps: 40": "max_steps: 20", "trials: 4": "trials: 2", "judge: [1, 2]": "judge: [1]", "  stop: {rungs: [20]}\n": ""}
    spec = SPEC.replace("slow: {optim: {schedule: {lr: 1.0e-3}}}", "slow: {model: {encoder: {num_layers: 2}}}")
    for old, new in changes.items():
        spec = spec.replace(old, new)
    monkeypatch.chdir(tmp_path)
    Path("tuned.yaml").write_text(spec, encoding="utf-8")
    code, out, err = cli("sweep", "tuned.yaml", "--tune", "--controls", "params", "--engine", "local", "--no-tracking", "--json")
    assert code == 0, err
    done = [json.loads(line) for line in out.splitlines()]
    control = "base@params=slow@tuned"
    assert {record["id"].split("/")[-1] for record in done} == {"base@tuned", "slow@tuned", control}
    found = searches(Path())["try/tuned/base@params=slow"]
    rate = found["trials"][found["chosen"]]["changes"].get("optim.schedule.lr", 3.0e-3)
    shown = json.loads(cli("show", f"tuned.yaml#{control}", "--json")[1])["spec"]
    assert shown["model"]["d_ff"] > 32 and shown["optim"]["schedule"]["lr"] == rate


def test_what_tune_does_not_go_with(tmp_path: Path, cli: Any) -> None:
    file, plain, other = (tmp_path / f"{name}.yaml" for name in ("tuned", "plain", "with"))
    file.write_text(SPEC.replace("claims:", "sweep: {scheduler: {kind: asha, rungs: [20]}}\nclaims:"))
    plain.write_text(SPEC.partition("claims:")[0] + "rows:\n  base: {}\n")
    other.write_text("tune: {trails: 3, space: {optim.schedule.lr: {uniform: [0.001, 0.002]}}}\n")
    for arguments, message in (
        ((file, "--tune"), "--tune: found a scheduler that compares rows; expected fifo"),
        ((plain, "--tune"), "found no section `tune`; expected one in the file, or --tune-with FILE.yaml"),
        ((file, "--tune", "--seeds", "3,101"), "--seeds: found [101], with which the search chooses"),
        ((plain, "--tune-with", other), "with.yaml:1: tune.trails: unknown key"),
    ):
        code, _, err = cli("sweep", *arguments, "--engine", "local", "--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")
        assert code == 2 and message in err
    assert not list(tmp_path.glob("results/*/train.json"))


def test_the_documented_table_runs(tmp_path: Path, finish: Any, cli: Any) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8"), re.DOTALL)
    runs = finish(tmp_path / "documented", spec=text.replace("max_steps: 80", "max_steps: 24"))["runs"]
    assert {name for name, _ in runs} == {"mine/tuned/baseline@tuned", "mine/tuned/dense@tuned"} and len(runs) == 6
    places = ("--results", tmp_path / "documented" / "results", "--cache-dir", tmp_path / "cache")
    code, out, _ = cli("verdict", tmp_path / "documented" / "tuned.yaml", *places)
    assert code in (0, 7) and "mine/tuned" not in out and " dense " in out
