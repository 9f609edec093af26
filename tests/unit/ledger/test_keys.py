import copy
from typing import Any

import pytest

from orchestrator.files.canonical import canonical, digest
from orchestrator.ledger import keys
from orchestrator.ledger.keys import Keys, keys_of, recorded, without_former
from orchestrator.specs.schema import RunSpec
from tests.unit.conftest import refused

MANIFEST = {
    "format": 1,
    "preparation": {"subword": {"kind": "bpe", "size": 8000}},
    "text": {"train": {"src": "aa", "tgt": "bb"}, "valid": {"src": "cc", "tgt": "dd"}},
    "tests": {"test": {"src": "ee", "tgt": "ff"}, "test2017": {"src": "ee", "tgt": "ff"}},
}
PARENT = "12" * 32
BASE: dict[str, Any] = {
    "data": {"corpus": "toy"},
    "train": {"max_steps": 100},
    "optim": {"schedule": {"kind": "noam"}, "restart": {"after_steps": 50, "schedule": {"kind": "fixed", "lr": 1e-4}}},
}


class Plain:
    version = 1

    def __init__(self, site, *, wide: bool = True, size: int = 4) -> None: ...


@pytest.fixture(autouse=True)
def stubs(monkeypatch):
    """A registry of our own: its kinds and versions are known here."""
    sides = ("connection", "aggregation", "residual", "self_attention", "cross_attention", "layer")
    names = (*sides, "bridge", "extra_encoder", "context", "head", "regularizer")
    kinds = dict.fromkeys(("residual", "top", "plain", "single", "transformer", "dense", "birnn", "gru", "diversity"), Plain)
    registries = {name: type("Registry", (), {"get": staticmethod(dict(kinds).__getitem__)}) for name in names}
    monkeypatch.setattr("orchestrator.ledger.keys.REGISTRIES", registries)
    return registries


def spec(*changes: tuple[str, Any]) -> RunSpec:
    data = copy.deepcopy(BASE)
    for path, value in changes:
        *parents, last = path.split(".")
        place = data
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = value
    return RunSpec.model_validate(data)


def key(*changes: tuple[str, Any], manifest=MANIFEST, parent: str | None = None) -> Keys:
    return keys_of(spec(*changes), manifest, parent)


TRAIN = [
    ("model.d_model", 256), ("model.d_ff", 1024), ("model.num_heads", 4), ("model.norm", "pre"), ("model.norm_eps", 1e-5),
    ("model.activation", "gelu"), ("model.positions", "none"), ("model.embeddings", "three-way"), ("model.embedding_scale", False),
    ("model.encoder_embedding_bias", True), ("model.output_bias", True), ("model.init", "fan-in"), ("model.max_positions", 512),
    ("model.word_dim", 32), ("model.output_dim", 32), ("model.weight_norm", True), ("model.dropout.embedding", 0.2),
    ("model.dropout.ffn", 0.1), ("model.encoder.num_layers", 3), ("model.decoder.num_layers", 3),
    ("model.encoder.connection", {"kind": "dense"}), ("model.decoder.connection", {"kind": "dense"}),
    ("model.encoder.connection", {"kind": "residual", "size": 5}), ("model.decoder.cross_attention", {"kind": "dense"}),
    ("model.bridge", {"kind": "dense"}), ("model.extra_encoder", {"kind": "birnn"}), ("model.context", {"kind": "gru"}),
    ("model.head", {"kind": "gru"}), ("model.regularizers", [{"kind": "diversity"}]), ("optim.betas", [0.9, 0.999]), ("optim.eps", 1e-8),
    ("optim.schedule.warmup", 8000), ("optim.schedule.factor", 2.0), ("optim.restart", None), ("optim.restart.after_steps", 60),
    ("optim.restart.schedule.lr", 1e-3), ("optim.restart.batch", {"size": 80}), ("optim.kind", "nag"),
    ("optim.schedule", {"kind": "plateau", "lr": 0.25}), ("optim.schedule", {"kind": "plateau", "lr": 0.25, "cut": "after_first_rise"}),
    ("optim.schedule", {"kind": "plateau", "lr": 0.25, "shrink": 0.5}), ("optim.schedule", {"kind": "plateau", "lr": 0.25, "min_lr": 0.01}),
    ("optim.restart.schedule", {"kind": "plateau", "lr": 0.25, "min_lr": 0.01}), ("train.validate_every", "epoch"),
    ("batch.pad_to", 16),
    ("model.zero_residual", True), ("optim.kind", "muon"), ("optim.weight_decay", 0.1), ("optim.ema", 0.999), ("optim.clip_norm", 1.0),
    ("optim.label_smoothing", 0.1), ("batch.unit", "sentences"), ("batch.size", 1000), ("batch.accumulate", 2),
    ("train.max_steps", 200), ("train.max_epochs", 3), ("train.validate_every", 10),
    ("train.snapshots", 5), ("train.patience", 3), ("train.precision", "bf16"), ("train.threads", 2), ("train.compile", True), ("seed", 2),
]  # fmt: skip
DECODE = [
    ("decode.checkpoint", "best"), ("decode.beam_size", 5), ("decode.length_penalty.alpha", 1.0),
    ("decode.length_penalty.kind", "exponent"), ("decode.length_penalty", {"alpha": "tuned", "candidates": [0.0, 1.0]}),
    ("decode.length_penalty", {"alpha": "tuned", "candidates": [0.0, 1.5]}), ("decode.max_ratio", 2.0), ("decode.max_extra", 10),
    ("decode.max_length", 140), ("decode.no_repeat_ngram", 3), ("decode.precision", "int8"), ("score.test", "test2017"),
    ("score.beam_size", 1),
]  # fmt: skip
SCORE = [
    ("score.tokenize", "char"), ("score.metric", "multi-bleu"), ("score.metric", "rouge"), ("score.lowercase", True),
    ("score.split_compounds", True),
]  # fmt: skip
NEUTRAL = [
    ("train.checkpoint_every", 7),
    ("train.checkpoint_every", "epoch"),
    ("optim.kind", "adam"),
    ("optim.momentum", None),
    ("optim.name", "adam"),  # the word of older files
    ("train.recompute", "layers"),  # the same bits
    ("train.log_gradient_norms", 7),
    ("train.snapshot_every", 7),  # without snapshots
    ("data.vocab", {"src": 100, "tgt": 100}),  # declared sizes: the manifest decides
    ("data.corpus", "another name of the same text"),
    ("model.encoder.connection", {"kind": "residual", "wide": True, "size": 4}),  # defaults written out
]


@pytest.mark.parametrize(("change", "kept"), [(c, n) for n, part in enumerate((TRAIN, DECODE, SCORE, NEUTRAL)) for c in part], ids=str)
def test_a_change_leaves_what_comes_before_it_and_nothing_else(change, kept):
    """kept: how many of training, decoding and score have the key that they had."""
    new, old = key(change), key()
    assert [getattr(new, name) == getattr(old, name) for name in ("train", "decode", "score")] == [n < kept for n in range(3)]
    assert kept < 3 or new == old


def test_every_field_is_tried():
    """A new field of the spec must be put into one of the lists above."""
    sections = {"model", "optim", "batch", "train", "decode", "score"}
    tried = {tuple(path.split(".")[:2]) for path, _ in TRAIN + DECODE + SCORE + NEUTRAL}
    fields = {(s, f) for s in sections for f in RunSpec.model_fields[s].annotation.model_fields}
    assert not fields - tried


def test_snapshots_use_the_effective_interval():
    kept = ("train.snapshots", 5)
    assert key(kept).train == key(kept, ("train.snapshot_every", 1000)).train  # the default of checkpoint_every
    assert key(kept).train != key(kept, ("train.snapshot_every", 500)).train
    assert key(kept).train != key(kept, ("train.checkpoint_every", 500)).train
    assert key(kept, ("train.snapshot_every", 500)).train == key(kept, ("train.snapshot_every", 500), ("train.checkpoint_every", 9)).train


def test_options_of_a_kind_count_with_it_alone():
    none, nag = ("decode.length_penalty.kind", "none"), ("optim.kind", "nag")
    assert key(none) == key(none, ("decode.length_penalty.alpha", 0.1))
    assert key(nag) == key(nag, ("optim.momentum", 0.99))
    assert key(nag).train != key(nag, ("optim.momentum", 0.9)).train
    assert "betas" not in keys._optim_meaning(spec(nag)), "Adam's defaults name no run of another optimiser"


def test_a_plateaus_defaults():
    short, written = (
        {"kind": "plateau", "lr": 0.25, **more} for more in ({}, {"shrink": 0.1, "min_lr": 1e-4, "cut": "each_rise", "warmup": 0})
    )
    assert key(("optim.schedule", short)) == key(("optim.schedule", written))


def test_a_tuned_penalty_has_a_key_of_its_own():
    """It depends on training, search, validation text and metric; the test set that is decoded with it plays no part."""
    tuned = ("decode.length_penalty", {"alpha": "tuned", "candidates": [0.0, 1.0]})
    assert key().tune is None and "tune" not in key().as_dict()
    mine = key(tuned)
    assert mine.train == key().train and mine.as_dict()["tune"] == mine.tune is not None
    assert key(tuned, ("score.test", "test2017")).tune == mine.tune
    assert key(tuned, ("score.metric", "multi-bleu")).tune != mine.tune
    assert key(tuned, ("decode.beam_size", 5)).tune != mine.tune
    text = MANIFEST["text"] | {"valid": {"src": "c0", "tgt": "dd"}}
    other = key(tuned, manifest={**MANIFEST, "text": text})
    assert other.tune != mine.tune and other.decode != mine.decode


def test_manifest_and_parent():
    assert key(manifest=None) == Keys(None, None, None)
    assert key(manifest={**MANIFEST, "format": 2}).train != key().train
    assert key(manifest={**MANIFEST, "text": MANIFEST["text"] | {"train": {"src": "aa", "tgt": "b0"}}}).train != key().train
    first, second = (key(("init_from", address), parent=PARENT) for address in ("dou2018/table1/row1", "other/table/row"))
    assert first == second and first.train != key().train
    assert key(("init_from", "a/b/c"), parent="34" * 32).train != first.train
    starts = [(("init_from", "a/b/c"), ("decode.checkpoint", which)) for which in ("last", "best", "average", "ema")]
    assert len({key(*changes, parent=PARENT).train for changes in starts}) == 4, "of other weights of the parent"
    for changes, parent in ((starts[0], None), ((), PARENT)):
        with pytest.raises(ValueError, match="init_from"):
            key(*changes, parent=parent)


def test_text_of_the_test_set():
    """Another test set retrains and decodes nothing; another text of the one in use is decoded again."""
    tests = MANIFEST["tests"]
    assert key(manifest={**MANIFEST, "tests": tests | {"test2018": {"src": "11", "tgt": "22"}}}) == key()
    changed = key(manifest={**MANIFEST, "tests": tests | {"test": {"src": "e0", "tgt": "ff"}}})
    assert changed.train == key().train and changed.decode != key().decode and changed.score != key().score
    assert "test2019" in refused(key, ("score.test", "test2019"))[0]


def test_a_former_option_stays_in_digests_and_is_read(monkeypatch):
    monkeypatch.setattr(keys, "FORMER", {"residual/plain": {"old": 1.0}})
    now = spec(("model.encoder.residual", {"kind": "plain", "wide": False}))
    before = recorded(now)
    assert before["model"]["encoder"]["residual"] == {"kind": "plain", "wide": False, "old": 1.0}
    assert RunSpec.model_validate(without_former(before) | {"seed": now.seed}) == now
    assert before == recorded(now), "a record that was read is shared"
    before["model"]["encoder"]["residual"]["old"] = 2.0
    assert without_former(before)["model"]["encoder"]["residual"]["old"] == 2.0, "of another meaning: it stays, and is refused"


def test_unknown_component_is_a_user_error():
    assert "bridge: 'draw' is not registered" in refused(key, ("model.bridge", {"kind": "draw"}))[0]


def test_grown_fields(monkeypatch):
    """A field that came later, at the value that older runs had, is not in the key."""
    before = key().train
    monkeypatch.setattr(keys, "GROWN", {"model.norm_eps": 1e-6, "connection/residual.size": 4})
    grown = key().train
    assert grown != before
    monkeypatch.setattr(Plain.__init__, "__kwdefaults__", {"wide": True})
    assert key(("model.norm_eps", 1e-5)).train != grown


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0), (-0.0, 0), (1e300, int(1e300)), ((1, (2,)), [1.0, [2]]), ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}),
        (0.1 + 0.2, 0.30000000000000004),
    ],
)  # fmt: skip
def test_canonical_equal(left, right):
    assert canonical(left) == canonical(right)


@pytest.mark.parametrize(("left", "right"), [(1, True), (1, "1"), (None, 0), (None, "null"), ([], {}), (0.1, 0.1000001), ("é", "e")])
def test_canonical_different(left, right):
    assert canonical(left) != canonical(right)


@pytest.mark.parametrize(
    ("value", "error"), [(float("nan"), ValueError), (float("inf"), ValueError), ({1: 2}, TypeError), ({1, 2}, TypeError), (b"", TypeError)]
)
def test_not_plain_data(value, error):
    with pytest.raises(error):
        canonical({"x": [value]})


def test_pinned():
    """Keys name finished work. If this fails, results already in a ledger would be trained again: for a new field add it to GROWN."""
    assert digest({"b": [1, 2.5, None, True, "ü"], "a": {}}) == "1c922e1eab358e36a50c0245289284ba60874441d900ab3ef821d07c1ef0d859"
    assert key().train == "54ea522ab8e9324792686411ab75fb6efaf21ea7d0bd6eca711ebd5817b8c756"
    child = key(("init_from", "a/b/c"), parent=PARENT)
    assert child.train == "77cc006727bc22f514522e9395bdd863ab792fffc2685c1a2569f94ec24e46fc"


def test_a_later_field_leaves_the_digests_of_recorded_specs_as_they_were():
    """Looks and noise floors are known by such digests."""
    assert "pad_to" not in recorded(spec())["batch"] and recorded(spec(("batch.pad_to", 16)))["batch"]["pad_to"] == 16
    old = recorded(spec(("optim.restart.batch", {"size": 9})))
    for batch in (old["batch"], old["optim"]["restart"]["batch"]):
        assert (batch["stages"], batch["curriculum"], "pad_to" in batch) == ([], 0, False)
    assert recorded(RunSpec.model_validate(without_former(old))) == old and "seed" not in old
