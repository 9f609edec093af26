"""A row with several scorings, trained for real: one training, a decoding for each test set, a score for each figure."""

import json
import shutil
from pathlib import Path

import pytest

from models.inference import PrecisionError
from orchestrator.engines.execute import execute
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import unpack
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps import row as pipeline
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import view_of
from orchestrator.sweeps.task import Task, make_tasks
from tests.unit.conftest import refused

ALSO = "also: {valid: {test: valid}, cased: {metric: mteval}, same: {test: test}}"


@pytest.fixture
def options(tmp_path) -> ExecutionOptions:
    return ExecutionOptions(name="demo", results=tmp_path / "results", cache_dir=tmp_path / "cache", no_tracking=True)


@pytest.fixture
def counted(monkeypatch) -> dict[str, int]:
    """How often the pipeline trained and decoded."""
    functions = {"train": pipeline._train, "decode_corpus": pipeline.decode_corpus}
    counts = dict.fromkeys(functions, 0)
    for name, real in functions.items():

        def call(*args, name=name, real=real, **kwargs):
            counts[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(pipeline, real.__name__, call)
    return counts


def rows_of(spec, also: str = ALSO) -> list[Row]:
    return resolve(spec(f"  r: {{{also}}}\n" if also else "  r: {}\n"))


def records_of(rows: list[Row], seeds: list[int], options: ExecutionOptions) -> list[dict]:
    return [result.as_json() for result in execute(rows, seeds, options)]


def test_every_figure_is_scored_and_nothing_twice(spec, options: ExecutionOptions, counted: dict[str, int]) -> None:
    (record,) = records_of(rows_of(spec), [1], options)
    assert record["status"] == "done" and set(record["also"]) == {"valid", "cased", "same"}
    assert counted == {"train": 1, "decode_corpus": 2}, "test and valid; cased and same share the decoding of test"
    assert record["also"]["same"] == {"bleu": record["bleu"], "signature": record["signature"]}
    assert "mteval" in record["also"]["cased"]["signature"] and record["also"]["cased"]["signature"] != record["signature"]
    assert all(isinstance(figure["bleu"], float) for figure in record["also"].values())
    again = records_of(rows_of(spec), [1], options)
    assert again == [record] and counted == {"train": 1, "decode_corpus": 2}
    json.dumps(record)


def test_damage_is_told_and_made_again_from_the_weights(spec, options: ExecutionOptions, counted: dict[str, int]) -> None:
    (record,) = records_of(rows_of(spec), [1], options)
    (run,) = options.results.glob("*/train.json")
    files = [next((run.parent / "decode").glob("*.txt")), next((run.parent / "score").glob("*.json")), run.parent / "spec.yaml"]
    whole = [path.read_bytes() for path in files]
    for path in files:
        path.write_bytes(b"x" + path.read_bytes()[1:])
    (again,) = records_of(rows_of(spec), [1], options)
    assert again == record | {"sentences_per_second": again["sentences_per_second"]} and counted == {"train": 1, "decode_corpus": 3}
    assert [path.read_bytes() for path in files] == whole
    assert records_of(rows_of(spec), [1], options) == [again] and counted == {"train": 1, "decode_corpus": 3}


def test_a_score_may_name_its_own_beam(spec, options: ExecutionOptions, counted: dict[str, int]) -> None:
    """Greedy beside beam: one training, two searches; a row that searches greedily itself shares the second."""
    text = "  r: {decode: {beam_size: 3}, also: {greedy: {beam_size: 1}, same: {beam_size: 3}}}\n  g: {decode: {beam_size: 1}}\n"
    rows = resolve(spec(text))
    beam, greedy = records_of(rows, [1], options)
    assert counted == {"train": 1, "decode_corpus": 2}
    assert beam["also"]["greedy"] == {"bleu": greedy["bleu"], "signature": greedy["signature"]}
    assert beam["also"]["same"]["bleu"] == beam["bleu"]
    tasks = {task.id.rsplit("/", 1)[1]: task for task in make_tasks(rows, [1], options)}
    also = {name: item.keys for name, item in tasks["r"].also.items()}
    assert also["greedy"] == tasks["g"].keys and also["same"] == tasks["r"].keys != also["greedy"]
    ledger = Ledger(options.results)
    assert records_of(rows, [1], options) == [beam, greedy] and counted == {"train": 1, "decode_corpus": 2}
    decoded = ledger.read_decode(tasks["g"].train_key, also["greedy"].decode or "")
    assert decoded is not None and len(unpack(decoded["nll"], 2)) == decoded["sentences"] == len(decoded["hypotheses"])
    assert decoded["sentences_per_second"] > 0 and decoded["tokens_per_second"] > 0


def test_another_metric_needs_no_weights(spec, options: ExecutionOptions, counted: dict[str, int]) -> None:
    (bare,) = records_of(rows_of(spec, ""), [1], options)
    assert bare["status"] == "done" and bare["also"] == {}
    for gone in ("weights", "snapshots", "ckpt"):
        shutil.rmtree(Path(bare["result"]) / gone, ignore_errors=True)
    rows = rows_of(spec, "also: {cased: {metric: mteval}}")
    waiting = view_of(*make_tasks(rows, [1], options), Ledger(options.results))
    assert waiting.status == "trained" and waiting.bleu == bare["bleu"] and waiting.scores["cased"] is None
    (full,) = records_of(rows, [1], options)
    assert full["status"] == "done" and full["weights_sha256"] == bare["weights_sha256"] and full["also"]["cased"]["bleu"] is not None
    assert counted == {"train": 1, "decode_corpus": 1}


def test_a_task_travels_with_its_scorings(spec, options: ExecutionOptions) -> None:
    (task,) = make_tasks(rows_of(spec), [1], options)
    again = Task.of(json.loads(json.dumps(task.to_json())))
    assert again == task and again.data_key and list(again.scorings) == ["", "valid", "cased", "same"]
    assert again.scorings["same"] == again.scorings[""] and again.scorings["valid"].spec.test == "valid"
    (line,) = refused(pipeline.run_row, Task.of(task.to_json() | {"data_key": "0" * 64}), pipeline.Runtime())
    assert "toy-smoke: its text changed since" in line


def test_a_precision_that_this_machine_lacks_is_told_before_training(spec, options: ExecutionOptions, counted, monkeypatch) -> None:
    def lacks(precision: str, device) -> None:
        raise PrecisionError(f"precision {precision}: found a toaster; expected fp32")

    monkeypatch.setattr("models.inference.find_maker", lacks)
    rows = resolve(spec("  a: {decode: {precision: int8}}\n  b: {decode: {precision: bf16}}\n  c: {}\n"))
    told = [f"demo/small/{row}: decode.precision {what}: found a toaster; expected fp32" for row, what in (("a", "int8"), ("b", "bf16"))]
    assert refused(execute, rows, [1], options) == told
    assert counted["train"] == 0 and not list((options.results / "runs").glob("*/*"))
