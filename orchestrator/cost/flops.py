"""Operations of a row, counted from its parameters: every weight of a side is applied once to every position of that side. Tables of
words and positions are looked up, and cost nothing. An extra encoder with a fixed number of steps applies its weights once a step.

`_again` corrects for weights that are applied to a position several times. Attention over layers, norms and gates without weights are
ignored. The tests bound the error relative to the operations that torch counts at run time.
"""

from models.config import options
from models.registry import AGGREGATIONS, CONNECTIONS, ENCODERS, HEADS, LAYERS
from orchestrator.cost.work import Work
from orchestrator.ledger.keys import defaults_of
from orchestrator.specs.schema import EncoderSpec, ModelSpec
from orchestrator.sweeps import parts


def work(model: ModelSpec, src_vocab: int, tgt_vocab: int) -> Work:
    """Work of the model per token. Regularizers do not count."""
    counts = parts.count(model.model_copy(update={"regularizers": []}), src_vocab, tgt_vocab)
    d, word = model.d_model, model.word_dim or model.d_model
    out = model.output_dim or word
    source, target = src_vocab * word, tgt_vocab * word
    tables = {"separate": source + target + tgt_vocab * out, "tied-output": source + target, "three-way": target}
    places = 2 * model.max_positions * d if model.positions == "learned" else 0
    more = model.extra_encoder
    steps = (defaults_of(ENCODERS.get(more["kind"])) | more).get("steps") if more else None
    stepped = steps * counts.extra if isinstance(steps, int) else 0
    other = max(0, counts.whole - counts.encoder - counts.decoder - tables[model.embeddings] - places - (counts.extra if stepped else 0))
    encoder, decoder = (LAYERS.get(section.layer["kind"]) for section in (model.encoder, model.decoder))
    memory = 2 * d * d * model.decoder.num_layers if decoder.self_attends else 0
    apart = 0 if decoder.merges else memory
    predictions = 1 if model.head is None else HEADS.get(model.head["kind"]).predictions(model.decoder.num_layers, **options(model.head))
    above, below = (_runs(getattr(model, side)) for side in ("encoder", "decoder"))
    return Work(
        src=counts.encoder + (above - 1) * counts.encoder_layers + below * memory + other + _again(model, "encoder"),
        tgt=counts.decoder + (below - 1) * counts.decoder_layers - below * apart + predictions * tgt_vocab * out + _again(model, "decoder"),
        own_src=above * d * model.encoder.num_layers if encoder.self_attends else 0,
        own_tgt=below * d * model.decoder.num_layers if decoder.self_attends else 0,
        cross=below * d * model.decoder.num_layers,
        pair=stepped,
    )


def _runs(section: EncoderSpec) -> int:
    """How many times the layers of a side run in one pass."""
    layer = LAYERS.get(section.layer["kind"])
    return int(layer.runs(**options(section.layer))) + int(CONNECTIONS.get(section.connection["kind"]).corrects)


def _again(model: ModelSpec, side: str) -> float:
    """Sum over the weights of a side of the number of additional times that each is applied to a position."""
    section = getattr(model, side)
    if section.aggregation["kind"] != "mlrf-self-attention":
        return 0.0
    own = defaults_of(AGGREGATIONS.get("mlrf-self-attention")) | section.aggregation
    states = section.num_layers + bool(own["word_embedding"])
    once = 1 if own["w1"] != "layer" else 0  # with a separate map per state, each is applied once
    maps = own["n_hop"] if own["w1"] == "hop" else 1
    return float((states - 1) * own["d_a"] * (model.d_model * maps * once + own["n_hop"]))
