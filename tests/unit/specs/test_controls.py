"""Names of matched controls, and which rows ask for them."""

import pytest

from orchestrator.cost import controls
from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.controls import of_address, parse, split, wanted
from orchestrator.specs.row import Control
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data
from tests.unit.conftest import refused


def test_names() -> None:
    assert split("row1@params=row5") == ("row1", "params", "row5") and split("row1") is None and split("row1@smoke") is None
    control = Control("flops", "p/t/row1/de-en", "p/t/row2/de-en")
    assert control.name == "p/t/row1/de-en@flops=row2/de-en" and of_address(control.name) == control
    assert [of_address(text) for text in ("p/t/a", "p/t/a@parms=b", "t/a@params=b", "p/t/a@params=b/c/d")] == [None] * 4
    assert index.find("dou2018/table1/row1@params=row5").control == ("row1", "params", "row5")
    for text, message in (("dou2018/table1@params=row5", "no such table"), ("row1@params=row5", "paper/table/row or a folder$")):
        with pytest.raises(UserError, match=message):
            index.find(text)
    for row in ("row1", "row1@params=row5"):
        assert "row1@tuned: expected a row as written" in refused(controls.resolve, f"dou2018/table1/{row}@tuned", Data(None))[0]


def test_given_kinds() -> None:
    assert parse(None) is None and parse("") == [] and parse(" params, flops") == ["params", "flops"]
    with pytest.raises(UserError, match=r"--controls flop: found 'flop'; expected one of flops, params; did you mean flops\?"):
        parse("flop")


def test_who_asks(spec) -> None:
    """A file's kinds come with `extends`, a row's replace them; a corpus has its own baseline, a row that starts from another has that."""
    spec(text="controls: [params]\n", name="base.yaml")
    head = spec().read_text(encoding="utf-8").replace("  base: {}\n", "")
    other = "{corpus: toy-large}"
    path = spec(
        "  a: {pinned: true}\n  b: {controls: [flops, flops, params]}\n  c: {controls: []}\n  d: {init_from: b}\n"
        f"  e: {{data: {other}}}\n  f: {{data: {other}}}\n  q: {{kind: quoted}}\n",
        head="extends: base.yaml\n" + head,
    )
    rows = resolve(path)
    assert [row.controls for row in rows] == [("params",), ("flops", "flops", "params"), (), *[("params",)] * 3, ()]
    names = [control.name.removeprefix("demo/small/") for each in wanted(rows).values() for control in each]
    assert names == ["a@flops=b", "a@params=b", "b@params=d", "e@params=f"]
    assert list(wanted(rows, ["flops"])) == [f"demo/small/{name}" for name in "bcdf"] and wanted(rows, []) == {}
    assert wanted([rows[1]]) == {}


def test_grids_ask_too(spec) -> None:
    head = spec().read_text(encoding="utf-8").replace("rows:\n  base: {}\n", "controls: [params]\nrows: {base: {}}\n")
    rows = resolve(spec("grid:\n  axes: {width: {key: model.d_ff, grid: [8, 16]}}\n", head=head))
    assert len(rows) == 3 and len(wanted(rows)) == 2
