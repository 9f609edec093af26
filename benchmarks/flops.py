"""Useful floating-point operations of the baseline, equal for all contenders and without padding (see `orchestrator.cost.work`)."""

from collections.abc import Iterable

from sizes import Pair, Size

from orchestrator.cost.work import Tokens, Work


def transformer(d_model: int, d_ff: int, encoder_layers: int, decoder_layers: int, vocab: int) -> Work:
    """Of the Transformer itself (Vaswani et al. 2017)."""
    square, ffn = d_model * d_model, 2 * d_model * d_ff
    source = encoder_layers * (4 * square + ffn) + decoder_layers * 2 * square
    target = decoder_layers * (6 * square + ffn) + vocab * d_model
    return Work(source, target, d_model * encoder_layers, d_model * decoder_layers, d_model * decoder_layers)


def training_per_target_token(size: Size, pairs: Iterable[Pair]) -> float:
    """Returns the training FLOP per target token of this text, including the source side."""
    tokens = Tokens.of(*zip(*((len(src) + 1, len(tgt) + 1) for src, tgt in pairs), strict=True))
    return transformer(size.d_model, size.d_ff, size.layers, size.layers, size.vocab).training(tokens) / tokens.tgt
