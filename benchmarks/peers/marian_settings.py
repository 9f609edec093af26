"""Arguments of `transformers.MarianConfig` at a benchmark's size, for CPU and GPU."""

from collections.abc import Mapping
from typing import Any


def settings(size: Mapping[str, int], *, dropout: float, pad: int, bos: int, eos: int) -> dict[str, Any]:
    """Returns the arguments. `size` has layers, d_model, d_ff, num_heads and vocab. Dropout is not applied to attention weights."""
    side = {"layers": size["layers"], "ffn_dim": size["d_ff"], "attention_heads": size["num_heads"]}
    return {
        "vocab_size": size["vocab"],
        "decoder_vocab_size": size["vocab"],
        "d_model": size["d_model"],
        **{f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()},
        "dropout": dropout,
        "activation_dropout": dropout,
        "attention_dropout": 0.0,
        "activation_function": "relu",
        "scale_embedding": True,
        "max_position_embeddings": 128,
        "pad_token_id": pad,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "decoder_start_token_id": bos,
        "forced_eos_token_id": None,
    }
