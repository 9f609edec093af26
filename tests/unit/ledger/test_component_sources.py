"""Which edits of a component's source are told of, and of which rows."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from models.registry import AGGREGATIONS
from orchestrator.errors import UserError
from orchestrator.ledger import component_sources as sources
from orchestrator.ledger.results import Ledger
from orchestrator.specs.schema import ModelSpec

KEY, PARENT = "ab" * 32, "cd" * 32
PLAIN = {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder": {"num_layers": 2}, "decoder": {"num_layers": 2}}


def model(kind: str, **more: object) -> ModelSpec:
    return ModelSpec.model_validate(PLAIN | {"encoder": {"num_layers": 2, "aggregation": {"kind": kind}}} | more)


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A copy of `models` that may be edited."""
    shutil.copytree(sources.ROOT / "models", tmp_path / "models", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    return tmp_path


def test_a_components_files_are_its_own_and_what_it_alone_imports(tree: Path) -> None:
    linear, mlrf = sources.hashes(model("linear")), sources.hashes(model("mlrf-fnn"))
    assert linear.keys() - mlrf.keys() == {"models/aggregations/linear.py"}
    assert mlrf.keys() - linear.keys() == {"models/aggregations/mlrf.py"}
    assert "models/plain.py" in linear
    assert not {"models/attention.py", "models/transformer.py", "models/stack.py"} & linear.keys(), "what every row has"
    recurrent = sources.hashes(model("top", bridge={"kind": "extra"}, extra_encoder={"kind": "birnn"}))
    assert {"models/bridges/extra.py", "models/gru.py"} <= recurrent.keys(), "helpers of helpers too"


def test_relative_imports_count_and_components_of_other_packages_are_refused(tree: Path, monkeypatch) -> None:
    file = tree / "models/aggregations/linear.py"
    for line in ("from .helper import x", "from . import helper", "from ..aggregations.helper import x"):
        file.write_text(f"{line}\n")
        (tree / "models/aggregations/helper.py").write_text("x = 1\n")
        assert "models/aggregations/helper.py" in sources.hashes(model("linear")), line
    monkeypatch.setattr(AGGREGATIONS.get("linear"), "__module__", "lab.parts")
    with pytest.raises(UserError, match=r"aggregation linear: found in module lab.parts; expected a file"):
        sources.hashes(model("linear"))


def test_what_counts_as_a_change(tree: Path) -> None:
    linear, mlrf = ({"sources": sources.hashes(model(kind))} for kind in ("linear", "mlrf-fnn"))
    ledger, file = Ledger(tree / "results"), tree / "models/aggregations/linear.py"
    text = file.read_text()
    for same in ("# a comment\n" + text.replace("self, ", "self, \\\n"), text.replace('"""', '"""Other words. ', 1)):
        assert same != text
        file.write_text(same)
        assert sources.changed(linear, ledger) == []
    for other in (text + "\nX = 1\n", text.replace("return", "return 2 *", 1), "not Python ("):
        assert other != text
        file.write_text(other)
        assert sources.changed(linear, ledger) == ["models/aggregations/linear.py"] and sources.changed(mlrf, ledger) == []
    file.unlink()
    assert sources.changed(linear, ledger) == ["models/aggregations/linear.py"], "gone"
    file.write_text(text)
    (tree / "models/aggregations/mlrf.py").write_text((tree / "models/aggregations/mlrf.py").read_text() + "\nX = 1\n")
    assert sources.changed(linear, ledger) == [] and sources.changed(mlrf, ledger) == ["models/aggregations/mlrf.py"]
    assert sources.changed({"status": "done"}, ledger) == sources.changed(None, ledger) == [], "records of before know nothing"


def test_a_parent_that_was_trained_anew_is_a_change(tmp_path) -> None:
    ledger, child = Ledger(tmp_path), {"sources": {}, "parent": {"key": PARENT, "weights_sha256": "old"}}
    assert sources.changed(child, ledger) == [], "its record is not here"
    ledger.write_train(PARENT, {"status": "done", "weights_sha256": "old"})
    assert sources.changed(child, ledger) == []
    ledger.write_train(PARENT, {"status": "done", "weights_sha256": "new"})
    assert sources.changed(child, ledger) == [sources.PARENT]


def test_an_edit_of_equal_bits_while_the_run_trained_is_not_told_of(tree: Path, monkeypatch) -> None:
    (file, old), *_ = sources.hashes(model("linear")).items()
    monkeypatch.setitem(sources.EQUAL, file, [old, "0" * 64])
    origin = {"sources": {file: old}}
    assert not sources.mark_edited(origin, {"sources": {file: "0" * 64}}) and origin["sources"] == {file: old}


def test_a_file_edited_while_the_run_trained_stays_told_of(tree: Path) -> None:
    """Also where the edit is taken back: the run is of neither."""
    first = sources.hashes(model("linear"))
    origin: dict[str, Any] = {"sources": dict(first), "parent": None}
    file = tree / "models/aggregations/linear.py"
    text = file.read_text()
    file.write_text(text + "\nX = 1\n")
    assert not sources.mark_edited(origin, origin) and not sources.mark_edited({}, origin) and not sources.mark_edited(origin, {})
    assert origin["sources"] == first
    assert sources.mark_edited(origin, {"sources": sources.hashes(model("linear"))}) == ["models/aggregations/linear.py"]
    file.write_text(text)
    assert not sources.mark_edited(origin, {"sources": first}), "it is told of once"
    assert sources.changed(origin, Ledger(tree)) == ["models/aggregations/linear.py"]
