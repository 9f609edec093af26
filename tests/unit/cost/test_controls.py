"""Matched controls: within the tolerance, the same keys as a row written by hand, left out with a reason."""

import itertools

import pytest

from orchestrator.cost.controls import lengthened, resolve
from orchestrator.cost.flops import work
from orchestrator.cost.widths import TOLERANCE, nearest, widened
from orchestrator.cost.work import Lengths
from orchestrator.data.batching import Batches
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.specs import rows as specs
from orchestrator.specs.row import Control, Row
from orchestrator.specs.schema import BatchSpec
from orchestrator.specs.show import to_yaml
from orchestrator.sweeps import parts
from orchestrator.sweeps.plan import Data, keys_for, plan

ROWS = (
    "  base: {pinned: true}\n  wide: {model: {d_ff: 70}, init_from: base}\n"
    "  deep: {controls: [params], model: {encoder: {num_layers: 3}}}\n"
    "  none: {controls: [], model: {encoder: {num_layers: 4}}}\n  other: {kind: quoted}\n"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Data:
    return Data(None, tmp_path_factory.mktemp("cache"))


def params(row: Row, data: Data) -> int:
    sizes = data.vocabulary_sizes(row.spec)
    assert sizes is not None
    return parts.params(row.spec, *sizes)


def operations(row: Row, data: Data) -> float:
    """Of the training, as `plan` counts them; for trainings that end by `max_steps`."""
    prepared = data.prepared(row.spec.data)
    assert prepared is not None and row.spec.train.max_epochs is None
    length = Lengths().training(row.spec, prepared)
    assert length.updates == row.spec.train.max_steps
    return work(row.spec.model, prepared.src_size, prepared.tgt_size).training(length.tokens) * length.updates


SHIPPED = ("dou2018/table1", "hao2019/table1", "shen2018/table1", "wei2020/table2", "wei2020/table6", "mlrf2018/table2", "mlrf2018/table3")


@pytest.mark.slow
@pytest.mark.parametrize("profile", [None, "smoke"])
@pytest.mark.parametrize("address", SHIPPED)
def test_shipped_tables_meet_the_tolerance(address: str, profile: str | None, data: Data) -> None:
    """Every variant has its control of parameters, directly below it; only widths differ from the baseline."""
    found, left_out = resolve(address, data, profile=profile, given=["params"], preparing=profile is not None)
    by_id = {row.id: row for row in found}
    assert left_out == []
    plain = [row for row in found if row.control is None]
    assert plain == specs.resolve(address, profile=profile)
    matched = [row for row in found if row.control is not None]
    assert len(matched) == len({row.control.against for row in matched if row.control}) > 0
    corpora = {row.corpus or row.spec.data.corpus for row in plain if row.spec is not None}  # as written, before the profile
    assert len(matched) == len([row for row in plain if row.spec is not None]) - len(corpora), "baselines alone have none"
    for before, row in itertools.pairwise(found):
        if row.control is None:
            continue
        of = by_id[row.control.of]
        assert row.control.against == before.id and abs(params(row, data) / params(before, data) - 1) <= TOLERANCE, row.id
        assert row.spec.model_dump(exclude={"model", "init_from"}) == of.spec.model_dump(exclude={"model", "init_from"})
        # where the variant starts from the baseline's weights, its control starts from the widened baseline's
        if before.spec.init_from == of.id:
            assert row.parent.spec == row.spec.model_copy(update={"init_from": None})
        else:
            assert row.parent is of.parent
        mine, its = row.spec.model.model_dump(), of.spec.model.model_dump()
        assert {name for name in mine if mine[name] != its[name]} <= {"d_ff", "d_model", "encoder", "decoder"}
        assert row.expect == {} and not row.pinned


@pytest.mark.parametrize("address", ["dou2018/table1", "hao2019/table1", "shen2018/table1"])
def test_operations_of_shipped_tables(address: str, data: Data) -> None:
    """Smoke's six updates come to the nearest whole update; with 600 updates the tolerance holds."""
    for steps in (6, 600):
        sets = [f"train.max_steps={steps}"]
        if address == "shen2018/table1":
            sets.append("train.validate_every=600")  # else its plateau may end it
        found, left_out = resolve(address, data, profile="smoke", sets=sets, given=["flops"], preparing=True)
        by_id = {row.id: row for row in found}
        assert left_out == []
        for row in (row for row in found if row.control is not None):
            against, of = by_id[row.control.against], by_id[row.control.of]
            error, one = operations(row, data) / operations(against, data) - 1, operations(of, data) / steps / operations(against, data)
            assert abs(error) <= max(one / 2 * 1.01, TOLERANCE if steps == 600 else 0), row.id
            assert (abs(error) > TOLERANCE) == (f"({error:+.1%})" in row.label), row.label
            assert (row.parent, row.spec.init_from) == ((of, of.id) if against.spec.init_from == of.id else (of.parent, None))


def test_rows_ask_for_controls(spec, data: Data) -> None:
    path = spec(ROWS, head="controls: [params, flops]\n" + HEAD)
    found, left_out = resolve(str(path), data, preparing=True)
    names = [row.id.removeprefix("demo/small/") for row in found]
    assert names == ["base", "wide", "base@params=wide", "base@flops=wide", "deep", "base@params=deep", "none", "other"] and not left_out
    wide = found[2]
    assert wide.control == Control("params", "demo/small/base", "demo/small/wide") and wide.control.name == wide.id
    assert wide.label == "base, d_ff 70, continued: parameters of wide" and wide.spec is not None
    assert wide.spec.init_from == "demo/small/base@params=wide@start" and wide.parent is not None and wide.parent.parent is None
    given, _ = resolve(str(path), data, given=["params"])
    assert [row.id.partition("@")[2] for row in given if row.control] == ["params=wide", "params=deep", "params=none"]
    assert not any(row.control for row in resolve(str(path), data, given=[])[0])
    assert [row.id for row in resolve(f"{path}#wide", data)[0]] == ["demo/small/wide"], "a single row brings none"
    named, _ = resolve(f"{path}#deep", data, given=["params"])
    assert [row.id.removeprefix("demo/small/") for row in named] == ["deep", "base@params=deep"]


HEAD = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 20}
optim: {schedule: {warmup: 8}}
rows:
"""


def test_keys_are_those_of_rows_written_by_hand(spec, data: Data, tmp_path) -> None:
    """And `show` prints a control that reads back as itself."""
    path = spec(ROWS, head=HEAD)
    (by_params,), _ = resolve(f"{path}#base@params=deep", data, preparing=True)
    (by_flops,), _ = resolve(f"{path}#base@flops=wide", data)
    steps, schedule = by_flops.spec.train.max_steps, by_flops.spec.optim.schedule
    rows = f"{ROWS}  by_hand: {{model: {{d_ff: {by_params.spec.model.d_ff}}}}}\n"
    rows += f"  longer: {{init_from: base, train: {{max_steps: {steps}, validate_every: {by_flops.spec.train.validate_every}}}, "
    rows += f"optim: {{schedule: {{warmup: {schedule.warmup}, factor: {schedule.factor}}}}}}}\n"
    written = spec(rows, head=HEAD, name="other.yaml")
    for control, name in ((by_params, "by_hand"), (by_flops, "longer")):
        (row,) = specs.resolve(f"{written}#{name}")
        assert keys_for(row, data) == keys_for(control, data)
        (again,) = specs.resolve(spec(text=to_yaml(control), name="shown.yaml"))
        assert (again.id, again.label, again.spec, again.control) == (control.id, control.label, control.spec, control.control)
        assert keys_for(again, data) == keys_for(control, data)
    made = plan([by_flops], [1, 2], ledger=Ledger(tmp_path / "r"), data=data)
    assert [row.id for row in made.parents] == ["demo/small/base"] * 2 and made.trainings == 4


def test_a_training_is_stretched_as_a_whole(spec) -> None:
    head = HEAD.replace("{warmup: 8}", "{warmup: 8}, restart: {after_steps: 20, schedule: {kind: wsd, lr: 0.1, warmup: 4, cooldown: 0.5}}")
    (row,) = specs.resolve(spec("  a: {train: {snapshots: 2, snapshot_every: 10, validate_every: epoch}}\n", head=head))
    assert lengthened(row.spec, 40, 40) is row.spec
    longer = lengthened(row.spec, 40, 60)
    train, optim = longer.train, longer.optim
    assert (train.max_steps, train.checkpoint_every, train.snapshot_every, train.validate_every) == (60, 30, 15, "epoch")
    assert (optim.schedule.warmup, optim.schedule.factor) == (12, round(1.5**0.5, 6))
    assert optim.restart is not None and optim.restart.after_steps == 30 and optim.restart.schedule.warmup == 6
    assert optim.restart.schedule.cooldown == 0.5 and longer.model == row.spec.model
    assert lengthened(row.spec, 40, 1).train.checkpoint_every == 1


RESTARTS = {
    "null": lambda one, two: 60 * one,
    "{after_epochs: 40, schedule: {kind: fixed, lr: 0.1}, batch: {unit: sentences, size: 8}}": lambda one, two: 40 * one + 20 * two,
    "{after_steps: 1, schedule: {kind: fixed, lr: 0.1}, batch: {unit: sentences, size: 8}}": lambda one, two: 1 + 59 * two,
}
"""Restart -> updates of 60 epochs, from the updates of an epoch before it and after it."""


@pytest.mark.parametrize("restart", RESTARTS)
def test_epochs_become_updates(spec, data: Data, restart: str) -> None:
    """A restart leaves its epoch, and may have batches of another size."""
    epochs = f"train: {{max_steps: null, max_epochs: 60}}, optim: {{restart: {restart}}}"
    path = spec(f"  a: {{{epochs}}}\n  b: {{model: {{d_ff: 300}}, {epochs}}}\n", head=HEAD)
    (control,), _ = resolve(f"{path}#a@flops=b", data, preparing=True)
    assert control.spec is not None and control.spec.train.max_epochs is None
    (b,) = specs.resolve(f"{path}#b")
    prepared = data.prepared(control.spec.data)
    length = Lengths().training(b.spec, prepared)
    theirs = work(b.spec.model, prepared.src_size, prepared.tgt_size).training(length.tokens) * length.updates
    assert abs(operations(control, data) / theirs - 1) <= TOLERANCE
    first, second = (
        len(Batches(prepared.pairs("train"), batch, 1).epoch(0)) for batch in (b.spec.batch, BatchSpec(unit="sentences", size=8))
    )
    assert length.updates == RESTARTS[restart](first, second)
    if "after_epochs" in restart:
        after = control.spec.optim.restart.after_epochs
        assert 2 <= after / ((control.spec.train.max_steps - after * first) / second) <= 2.1, "both phases are longer by one factor"


REASONS = [
    ("a@params=b", "", "parameters need vocabulary sizes: prepare toy-smoke .*--set data.vocab.src=N --set data.vocab.tgt=N"),
    ("a@flops=b", "", "operations need the lengths of prepared data: prepare toy-smoke"),
    ("a@parms=b", "", r"a@parms=b: found the control 'parms'; expected one of flops, params; did you mean params\?"),
    ("a@params=bb", "", r"no such row: 'bb'; expected one of a, b, q; did you mean b\?"),
    ("q@params=b", "", "found rows of kind quoted and run; expected rows of kind run"),
    ("a@flops=b", "train: {patience: 1}", "operations are not known beforehand: train.patience may end the training early"),
    ("a@flops=b", "optim: {schedule: {kind: plateau, lr: 0.1, min_lr: 0.05}}", "optim.schedule may end the training early"),
]


@pytest.mark.parametrize(("control", "with_", "message"), REASONS)
def test_why_there_is_no_control(control: str, with_: str, message: str, spec, data: Data, tmp_path) -> None:
    head = HEAD.replace("optim: {schedule: {warmup: 8}}\n", "")
    path = spec(f"  a: {{{with_}}}\n  b: {{model: {{d_ff: 40}}}}\n  q: {{kind: quoted}}\n", head=head)
    with pytest.raises(UserError, match=message) as error:
        resolve(f"{path}#{control}", data if with_ else Data(None, tmp_path), preparing=bool(with_))
    assert len(error.value.lines) == 1
    if control in ("a@params=b", "a@flops=b") and not with_:
        found, left_out = resolve(str(path), Data(None, tmp_path), given=[control[2:].partition("=")[0]])
        assert [row.id.rpartition("/")[2] for row in found] == ["a", "b", "q"]
        assert len(left_out) == 1 and left_out[0].startswith(f"control {control} left out: ")


def test_narrower_than_any_d_ff(spec) -> None:
    """d_model gives way, with d_ff in its proportion and then alone."""
    (row,) = specs.resolve(spec("  a: {model: {d_model: 64, d_ff: 256}}\n"))
    narrow = row.spec.model.model_copy(update={"d_model": 32, "d_ff": 128})
    small = parts.params(row.spec.model_copy(update={"model": narrow}), 200, 200)
    model, how = widened(row.spec, (200, 200), small)
    assert model.d_model % 4 == 0 and model.d_model < 64 and how == f"d_model {model.d_model}, d_ff {model.d_ff}"
    assert 2 < model.d_ff / model.d_model < 8
    assert abs(parts.params(row.spec.model_copy(update={"model": model}), 200, 200) / small - 1) <= TOLERANCE
    with pytest.raises(UserError, match=r"no width has 10 parameters within 0.5%; the nearest has \d+"):
        widened(row.spec, (200, 200), 10)


def test_nearest_width() -> None:
    assert nearest(lambda n: n * n, 300, 1, 39_005) == 197, "the secant ends beside it"
    assert [nearest(lambda n: 10 + 7 * n, 5, 1, target) for target in (10 + 7 * 40 + 3, 10 + 7 * 40 + 4, 3, 10**9)] == [40, 41, 1, 100_000]
    assert nearest(lambda n: n * n, 12, 4, 50 * 50) in (48, 52) and nearest(lambda n: n * n, 12, 4, 1) == 4
