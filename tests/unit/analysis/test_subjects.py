"""Which rows an analysis looks at, under which kind, and what is said of rows without a run."""

from dataclasses import replace

import pytest

from orchestrator.analysis.subjects import folder_name, group, kinds_of
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data
from tests.unit.history import publish

SMOKE = RowOptions(profile="smoke")


def test_a_row_that_runs_stands_for_itself_and_an_analysis_for_its_rows(lab) -> None:
    asks = replace(lab.rows["base"], id="demo/fig/a", label="both", kind="analysis", spec=None, of=[f"{lab.file}#hier", f"{lab.file}#base"])
    found, _ = group("length", [lab.rows["hop1"], asks, lab.rows["base"]], RowOptions(), lab.ledger)
    assert [(s.label, s.analysis_row is asks) for s in found] == [("one hop", False), ("hierarchical", True), ("baseline", True)]
    alone = replace(asks, of=[f"{lab.file}#hier"], label="(a) without diversity")
    assert [s.label for s in group("length", [alone], RowOptions(), lab.ledger)[0]] == ["(a) without diversity"]


def test_rows_without_a_run_are_named_with_the_command_that_makes_one(own) -> None:
    found, left_out = group("length", [own.rows["base"], own.rows["later"]], SMOKE, own.ledger)
    assert [s.row.id for s in found] == ["demo/small/base"]
    expected = f"run it first: nmt-ablate run '{own.file}#later' --profile smoke"
    assert len(left_out) == 1 and left_out[0].endswith(expected) and "found no run" in left_out[0]
    own.finish("later", seed=2)  # which stands for all seeds
    for kind, seeds in (("depth", [2]), ("length", [])):
        assert [s.spec.seed for s in group(kind, [own.rows["later"], own.rows["base"]], RowOptions(), own.ledger)[0]] == [*seeds, 1]


def test_weights_that_are_gone(lab, tmp_path) -> None:
    """A published ledger has records and no tensors: lengths can be had, exploitation cannot."""
    published = tmp_path / "published"
    publish(lab.ledger, lab.subject("hier").train_key, published)
    mirrored = Ledger(tmp_path / "results", [published])
    assert len(group("length", [lab.rows["hier"]], RowOptions(), mirrored)[0]) == 1
    with pytest.raises(UserError, match="demo/small/hier seed 1: its weights are not in"):
        group("exploitation", [lab.rows["hier"]], RowOptions(), mirrored)


def test_a_tuned_row_searches_with_what_was_tuned_and_keeps_its_own_results(lab, tmp_path) -> None:
    penalty = "length_penalty: {kind: exponent, alpha: tuned, candidates: [0.5, 1.5]}"
    made = type(lab)(tmp_path, lab.file.read_text(encoding="utf-8").replace("rows:", f"decode: {{{penalty}}}\nrows:"))
    for name in ("base", "hier"):
        made.finish(name, spoil=lambda source: len(source.split()) > 6)
    keys = made.subject("hier").keys
    made.ledger.write_record(keys.train, "tune", keys.tune, {"alpha": 1.5})
    found = group("significance", [made.rows["base"], made.rows["hier"]], RowOptions(), made.ledger)[0]
    assert [s.spec.decode.length_penalty.alpha for s in found] == [0.5, 1.5], "not tuned yet: the first candidate"
    finder = Finder(made.ledger, Data(None))
    assert [[o.status for o in finder.outcomes(s.row, [1])] for s in found] == [["done"], ["done"]]


def test_kinds_come_from_the_rows_unless_one_is_asked_for(lab) -> None:
    plain = lab.rows["base"]
    one, two = replace(plain, id="a/b/c", analysis="hops"), replace(plain, id="a/b/d", analysis="accuracy")
    assert kinds_of([one, plain], None) == {"hops": [one, plain]}
    assert kinds_of([one, two, plain], None) == {"hops": [one], "accuracy": [two]}
    assert kinds_of([one, two], "length") == {"length": [one, two]}
    with pytest.raises(UserError, match="demo/small/base: names no analysis; give --kind"):
        kinds_of([plain], None)


def test_folders_of_different_analyses_differ(lab) -> None:
    rows, plain = list(lab.rows.values()), RowOptions()
    scaled = (plain,), (SMOKE,), (SMOKE, 2), (RowOptions(sets=["model.d_model=8"]),)
    names = [*(folder_name(rows, *each) for each in scaled), folder_name(rows[:1], plain), folder_name(rows, plain, 1, ["edges=3"])]
    names += [folder_name(some, plain, several_targets=True) for some in (rows[:2], rows[1:3])]
    assert len(set(names)) == 8 and names[:3] == ["demo-small", "demo-small@smoke", "demo-small@smoke-seed2"]
    assert names[4] == "demo-small-base"
