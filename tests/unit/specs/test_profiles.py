"""What a profile makes of a row, and which `--set` reaches what: every number worked out by hand."""

import re
from collections.abc import Callable

import pytest

from orchestrator import paths
from orchestrator.errors import UserError
from orchestrator.specs import profiles
from orchestrator.specs.rows import resolve, runs
from tests.unit.conftest import refused

HEAD = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}}
model: {d_model: 48, d_ff: 96, num_heads: 4, word_dim: 40, output_dim: 24, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
batch: {unit: tokens, size: 900, accumulate: 4}
optim: {schedule: {kind: noam, warmup: 400, factor: 1.0}, restart: {after_epochs: 2, batch: {unit: sentences, size: 80},
  schedule: {kind: inverse-sqrt, lr: 0.001, warmup: 300}}}
train: {max_steps: 40, validate_every: 20, checkpoint_every: 20, log_gradient_norms: 5}
rows:
"""
PROFILE = """\
width: 0.25
warmup: 100
optim: {restart: {after_steps: 9, after_epochs: null}}
log_gradient_norms: 2
batch: {size: 300}
train: {max_steps: 8}
score: {test: valid}
corpora:
  toy-smoke:
    width: 0.5
    train: {max_steps: 7}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Callable[[str], None]:
    """Writes a profile `mine` where profiles are looked for."""
    for module in (paths, profiles):
        monkeypatch.setattr(module, "SEARCH_SPACES", tmp_path)
    (tmp_path / "profiles").mkdir()
    return lambda text: (tmp_path / "profiles" / "mine.yaml").write_text(text, encoding="utf-8") and None


def test_widths_are_scaled_to_whole_heads(spec, mine: Callable[[str], None]) -> None:
    """48 * 0.3 = 14.4: the nearest width of 4 heads, each of an even size, is 16; the other widths are rounded as they are."""
    mine("width: 0.3\n")
    row = "  a: {model: {encoder: {aggregation: {kind: mlrf-self-attention, d_a: 20, d_f: 30, n_hop: 4}}}}\n"
    model = resolve(spec(row, head=HEAD), profile="mine")[0].spec.model
    assert (model.d_model, model.num_heads, model.d_ff, model.word_dim, model.output_dim) == (16, 4, 29, 12, 7)
    assert {name: model.encoder.aggregation[name] for name in ("d_a", "d_f", "n_hop")} == {"d_a": 6, "d_f": 9, "n_hop": 4}
    wide = resolve(spec("  a: {model: {d_model: 40}}\n", head=HEAD), profile="mine")[0].spec.model
    assert wide.d_model == 16, "40 * 0.3 = 12 is one and a half times 8, the width of 4 heads of 2"


def test_schedules_batches_and_logs_of_a_profile(spec, mine: Callable[[str], None]) -> None:
    """Width 48 -> 24 and warm-up 400 -> 100 would make noam's highest rate sqrt(8) times as high: the factor takes it back."""
    mine(PROFILE)
    found = resolve(spec("  a: {}\n", head=HEAD), profile="mine")[0].spec
    assert found.model.d_model == 24, "the scale of its corpus"
    schedule, restart = found.optim.schedule, found.optim.restart
    assert (schedule.warmup, schedule.factor) == (100, round((24 / 48 * 100 / 400) ** 0.5, 6))
    assert (restart.schedule.warmup, restart.schedule.lr) == (100, 0.001)
    assert (restart.after_steps, restart.after_epochs) == (9, None)
    assert (restart.batch.unit, restart.batch.size) == ("sentences", 300)
    assert (found.batch.unit, found.batch.size, found.batch.accumulate) == ("tokens", 300, 4)
    assert (found.train.max_steps, found.train.validate_every, found.train.log_gradient_norms) == (7, 20, 2)
    assert found.score.test == "valid"
    mine("width: 0.5\n")
    for warmup in "warmup: 0", "warmup: 0, warmup_ratio: 0.1":
        schedule = resolve(spec("  a: {}\n", head=HEAD.replace("warmup: 400", warmup)), profile="mine")[0].spec.optim.schedule
        assert schedule.factor == round(0.5**0.5, 6)


def test_a_profile_keeps_the_ratio_of_the_rates_of_a_grid(spec, mine: Callable[[str], None]) -> None:
    mine("optim: {schedule: {kind: fixed, lr: 0.01, warmup: 3}}\n")
    head = HEAD.replace("kind: noam, warmup: 400, factor: 1.0", "kind: fixed, lr: 0.001, warmup: 9").replace("rows:", "rows: {a: {}}")
    grid = "grid:\n  axes:\n    rate: {zip: {optim.schedule.lr: [0.001, 0.002]}, names: [slow, fast]}\n"
    assert [row.spec.optim.schedule.lr for row in resolve(spec(grid, head=head), profile="mine")] == [0.01, 0.01, 0.02]


def test_the_figures_of_a_row_have_its_test_set(spec, mine: Callable[[str], None]) -> None:
    mine("score: {test: valid}\ncorpora: {toy-smoke: {score: {test: test}}}\n")
    path = spec("  a: {also: {greedy: {test: test}}}\n", head=HEAD)
    (row,) = resolve(path, profile="mine")
    assert row.spec.score.test == row.also["greedy"].test == "test"


def test_another_optimiser_and_less_dropout(spec, mine: Callable[[str], None]) -> None:
    """A schedule of another kind replaces the row's; a second phase is changed where there is one and given to no other row."""
    mine("dropout: 0.3\noptim: {kind: muon, schedule: {kind: wsd, lr: 0.002, warmup: 3}, restart: {after_steps: 5, after_epochs: null}}\n")
    dropout = "model: {dropout: {residual: 0.1, ffn: 0.2}}"
    text = f"  a: {{{dropout}}}\n  b: {{optim: {{restart: null, clip_norm: 2.0, schedule: {{kind: fixed, lr: 0.1, warmup: 9}}}}}}\n"
    a, b = (row.spec for row in resolve(spec(text, head=HEAD), profile="mine"))
    assert a.optim.kind == b.optim.kind == "muon" and a.optim.schedule == b.optim.schedule
    assert (b.optim.schedule.kind, b.optim.schedule.lr, b.optim.schedule.warmup, b.optim.clip_norm) == ("wsd", 0.002, 3, 2.0)
    assert (a.optim.restart.after_steps, a.optim.restart.schedule.lr) == (5, 0.001) and b.optim.restart is None
    assert (a.model.dropout.residual, a.model.dropout.ffn, b.model.dropout.residual) == (0.03, 0.06, pytest.approx(0.3 * 0.1))


def test_a_profile_of_ones_own_is_a_file(spec, tmp_path, capsys) -> None:
    own = spec(text="width: 0.5\n", name="quick.yaml")
    assert resolve(spec("  a: {}\n", head=HEAD), profile=str(own))[0].spec.model.d_model == 24
    with pytest.raises(UserError, match="no such file"):
        resolve(spec("  a: {}\n", head=HEAD), profile=str(tmp_path / "other.yaml"))
    for sets, said in ([], True), (["data.corpus=toy-smoke"], False), (["data.corpus=tatoeba-de-en"], False):
        resolve(spec("  a: {}\n", head=HEAD), profile="mini", sets=sets)
        assert (":2: data.corpus: found toy-smoke; the profile trains on multi30k-de-en" in capsys.readouterr().err) is said
    plain, fast = (resolve(f"modern/family/{name}", profile="mini")[0].spec.optim.schedule.lr for name in ("plain", "mudd18-fast"))
    assert fast == 4 * plain, "as in the file"


def test_a_profile_may_extend_another(spec, mine: Callable[[str], None]) -> None:
    mine("width: 0.5\ntrain: {max_steps: 7, validate_every: 3}\n")
    own = spec(text="extends: mine\ntrain: {max_steps: 9}\n", name="own.yaml")
    found = resolve(spec("  a: {}\n", head=HEAD), profile=str(own))[0].spec
    assert (found.model.d_model, found.train.max_steps, found.train.validate_every) == (24, 9, 3)
    for parent, line in (("mime", "1: extends: mime: unknown profile; .*did you mean mine"), ("own.yaml", "1: extends: found .*in turn")):
        own.write_text(f"extends: {parent}\n", encoding="utf-8")
        with pytest.raises(UserError, match=line):
            resolve(spec("  a: {}\n", head=HEAD), profile=str(own))


def test_a_profile_makes_no_warm_up_longer_and_no_log_rarer(spec, mine: Callable[[str], None]) -> None:
    mine("warmup: 1000\nlog_gradient_norms: 50\n")
    found = resolve(spec("  a: {}\n", head=HEAD), profile="mine")[0].spec
    assert (found.optim.schedule.warmup, found.optim.schedule.factor, found.optim.restart.schedule.warmup) == (400, 1.0, 300)
    assert found.train.log_gradient_norms == 5


LISTS = "  base: {}\n  child: {init_from: base, model: {regularizers: [{kind: diversity, weight: 0.1}, {kind: encoder_l2, weight: 0.2}]}}\n"


def test_an_override_of_a_regularizer_changes_the_one_of_that_kind(spec) -> None:
    def found(*sets: str) -> list[tuple[str, float]]:
        (row,) = resolve(f"{spec(LISTS, head=HEAD)}#child", sets=list(sets))
        return [(each["kind"], each["weight"]) for each in row.spec.model.regularizers]

    assert found("model.regularizers.encoder_l2.weight=0.7") == [("diversity", 0.1), ("encoder_l2", 0.7)]
    assert found("model.regularizers.diversity={weight: 0.7}") == [("diversity", 0.7), ("encoder_l2", 0.2)]
    assert found("model.regularizers=[{kind: diversity, weight: 0.5}]") == [("diversity", 0.5)]
    twice = spec(LISTS.replace("encoder_l2", "diversity"), head=HEAD)
    (line,) = refused(resolve, f"{twice}#child", sets=["model.regularizers.diversity.weight=0.7"])
    assert line.startswith("--set model.regularizers.diversity.weight=0.7: ") and "the row has two regularizers of one kind" in line


def test_an_override_reaches_the_parent_where_it_has_the_same_component(spec) -> None:
    rows = "  base: {model: {encoder: {aggregation: {kind: linear}}}}\n"
    rows += "  child: {init_from: base, model: {encoder: {aggregation: {kind: linear}}, decoder: {aggregation: {kind: linear}}}}\n"
    sets = ["model.d_ff=40", "model.encoder.aggregation.mode=narrow", "model.decoder.aggregation.mode=narrow"]
    child = resolve(f"{spec(rows, head=HEAD)}#child", sets=sets)[0]
    mine, parents = child.spec.model, child.parent.spec.model
    assert (mine.d_ff, parents.d_ff, parents.decoder.aggregation) == (40, 40, {"kind": "top"})
    assert [each.aggregation["mode"] for each in (mine.encoder, mine.decoder, parents.encoder)] == ["narrow"] * 3
    sets = ["optim.schedule.lr=0.1", "optim.schedule.kind=fixed"]
    first, last = (resolve(spec(rows, head=HEAD), sets=order)[0].spec for order in (sets, sets[::-1]))
    assert first == last and first.optim.schedule.lr == 0.1, "in any order"


def test_an_override_that_a_row_has_and_its_copy_as_a_parent_has_not_is_refused(spec) -> None:
    """A run is known by address and seed: one of the two would be dropped."""
    rows = resolve(spec(LISTS, head=HEAD), sets=["model.regularizers.encoder_l2.weight=0.7"])
    for given in (rows, rows[::-1]):
        with pytest.raises(UserError, match="small/base: found two specs of it"):
            runs(given, [1])
    assert [len(runs([row], [1, 2])) for row in rows] == [2, 2], "each in a command of its own"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("widht: 0.5\n", [r":1: widht: unknown key; expected one of .*did you mean width\?"]),
        ("corpora:\n  wmt14-en-de:\n    widht: 1\n", [r":3: corpora.wmt14-en-de.widht: unknown key; .*did you mean width\?"]),
        ("corpora:\n  wmt14-en-ed: {}\n", [r":2: corpora.wmt14-en-ed: unknown corpus; .*did you mean wmt14-en-de\?"]),
        ("train: 3\ncorpora:\n  wmt14-en-de: {width: wide}\n  iwslt14-de-en: {warmup: -1}\n",
         [":1: train: found 3; expected a mapping", ":3: .*found 'wide'; expected a number", ":4: .*found -1; expected a number >= 0"]),
    ],
)  # fmt: skip
def test_a_bad_profile_is_one_line_an_error(text: str, lines: list[str], tmp_path, mine: Callable[[str], None], cli) -> None:
    mine(text)
    path = tmp_path / "profiles" / "mine.yaml"
    said = refused(resolve, "dou2018/table1/row1", profile="mine")
    assert len(said) == len(lines)
    for line, expected in zip(said, lines, strict=True):
        assert re.match(re.escape(str(path)) + expected, line), line
    code, out, err = cli("show", "dou2018/table1/row1", "--profile", "mine")
    assert (code, out, err.count("\n")) == (2, "", len(lines)) and "Traceback" not in err
