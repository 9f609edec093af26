"""Which component's version, option and order is in a key, at each of its places; the data a key speaks of."""

import copy
from typing import Any

import pytest

from models.registry import REGISTRIES
from orchestrator.data import prepare, sentences
from orchestrator.data.prepare import manifest
from orchestrator.ledger.keys import component_versions, keys_of, training_key
from orchestrator.specs import corpora
from orchestrator.specs.schema import DataSpec, RunSpec

MANIFEST = {
    "format": 1,
    "text": {"train": {"src": "aa", "tgt": "bb"}, "valid": {"src": "cc", "tgt": "dd"}},
    "tests": {"test": {"src": "ee", "tgt": "ff"}, "other": {"src": "11", "tgt": "22"}},
}
PLACES = {  # a component of its own at every place: registry -> kind
    "encoder": {
        "connection": "dense", "aggregation": "linear", "residual": "rezero", "self_attention": "relative", "layer": "convolution",
    },
    "decoder": {
        "connection": "dlcl", "aggregation": "mlrf-avg", "residual": "laurel", "self_attention": "directional", "layer": "transformer",
        "cross_attention": "stacked",
    },
    "": {"bridge": "transparent", "extra_encoder": "birnn", "context": "multiscale", "head": "groups"},
}  # fmt: skip
REGULARIZERS = ["diversity", "encoder_l2"]
CLASSES = [(registry, kind) for place in PLACES.values() for registry, kind in place.items()]
CLASSES += [("regularizer", kind) for kind in REGULARIZERS]


def model() -> dict[str, Any]:
    found = {place: {slot: {"kind": kind} for slot, kind in slots.items()} for place, slots in PLACES.items()}
    return found | found.pop("") | {"regularizers": [{"kind": kind} for kind in REGULARIZERS]}


def spec(model: dict[str, Any] | None = None, **sections) -> RunSpec:
    given = {"data": {"corpus": "toy"}, "train": {"max_steps": 10}} | ({} if model is None else {"model": model}) | sections
    return RunSpec.model_validate(copy.deepcopy(given))


def train_key(model: dict[str, Any] | None = None, **sections) -> str:
    key = keys_of(spec(model, **sections), MANIFEST, None).train
    assert key is not None
    return key


def test_the_version_of_a_component_is_in_the_key_wherever_it_stands(monkeypatch):
    before = train_key(model())
    assert component_versions(spec(model()).model) == {f"{registry}/{kind}": 1 for registry, kind in CLASSES}
    found = {before}
    for registry, kind in CLASSES:
        with monkeypatch.context() as patch:
            patch.setattr(REGISTRIES[registry].get(kind), "version", 2)
            found.add(train_key(model()))
            assert component_versions(spec(model()).model)[f"{registry}/{kind}"] == 2
    assert len(found) == 1 + len(CLASSES), "each of them makes a key of its own"
    assert train_key(model()) == before


def test_a_class_is_registered_with_the_version_it_states(monkeypatch):
    registry = REGISTRIES["regularizer"]
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    found = registry.register("of-a-test", version=3)(type("OfATest", (), {}))
    assert (found.kind, found.version) == ("of-a-test", 3)
    with pytest.raises(ValueError, match=rf"registered twice: in {__name__} and {__name__}"):
        registry.register("of-a-test")(type("Other", (), {}))


def test_the_order_of_regularizers_is_in_the_key():
    """Their losses are summed in this order, which decides how the sum is rounded."""
    one, other = model(), model()
    other["regularizers"].reverse()
    assert train_key(one) != train_key(other)


def test_the_beam_of_a_scoring_is_the_decodings():
    """`score.beam_size` takes the place of `decode.beam_size`: equal searches are one decoding and one score."""

    def keys(decode: dict[str, Any], score: dict[str, Any]) -> tuple[str | None, str | None]:
        found = keys_of(spec(decode=decode, score=score), MANIFEST, None)
        return found.decode, found.score

    assert keys({"beam_size": 4}, {"beam_size": 7}) == keys({"beam_size": 7}, {})
    assert keys({"beam_size": 4}, {"beam_size": 7}) != keys({"beam_size": 4}, {})
    one = spec(decode={"beam_size": 4})
    several = [one.model_copy(update={"score": one.score.model_copy(update={"beam_size": size})}) for size in (None, 7)]
    assert len({keys_of(each, MANIFEST, None).decode for each in several}) == 2, "of rows that share their section `decode`"


def test_what_a_manifest_holds(monkeypatch):
    """Languages and the rule by which sentences of documents are split; not the corpus' name."""
    entry = corpora.load_entry("toy-smoke")

    def key(name: str = "toy-smoke", **change) -> str:
        monkeypatch.setattr(prepare, "load_entry", lambda name: entry.model_copy(update=change))
        found = manifest(DataSpec(corpus=name), None)
        return training_key(found)

    assert key("another name") == key()
    assert len({key(), key(src="xx"), key(tgt="xx"), key(src=entry.tgt, tgt=entry.src)}) == 4
    documents = corpora.load_entry("cnn-dailymail").documents
    before = key(documents=documents)
    assert before != key()
    monkeypatch.setattr(sentences, "RULE", "another rule")
    assert key(documents=documents) != before


@pytest.mark.parametrize(
    "kind", ["rezero", "laurel", "delta", "hyper", "manifold_hyper", "depth_attention", "mudd", "deep_cross_attention"]
)
def test_a_rate_of_ones_own_is_in_the_key_and_one_is_not(kind):
    keys = [train_key({"encoder": {"residual": {"kind": kind, **rate}}}) for rate in ({}, {"rate": 1.0}, {"rate": 10.0})]
    assert keys[0] == keys[1] != keys[2]
