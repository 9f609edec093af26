"""Model sizes and synthetic text shared by all benchmarks and peers."""

import random
from dataclasses import dataclass
from typing import Any

DROPOUT = 0.1

FIRST_WORD = 4
"""First word id; the ids below are PAD, UNK, BOS and EOS."""

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Size:
    """A Transformer with `layers` per side, one vocabulary for both languages and three-way tied embeddings."""

    d_model: int
    d_ff: int
    num_heads: int
    layers: int
    vocab: int

    def model(self, *, norm: str = "pre", dropout: float = DROPOUT, **changes: Any) -> dict[str, Any]:
        """Returns the `model` section of a spec. Dropout is on embeddings, residuals and the inner FFN layer, not on attention weights."""
        side = {"num_layers": self.layers}
        return {
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "num_heads": self.num_heads,
            "norm": norm,
            "embeddings": "three-way",
            "dropout": {"embedding": dropout, "residual": dropout, "attention": 0.0, "ffn": dropout},
            "encoder": dict(side),
            "decoder": dict(side),
        } | changes


SIZES = {
    "tiny": Size(64, 256, 4, 2, 1000),
    "small": Size(256, 1024, 4, 6, 8000),  # the IWSLT14 shape
    "base": Size(512, 2048, 8, 6, 32000),
    "big": Size(1024, 4096, 16, 6, 32000),
}


def text(vocab: int, sentences: int, seed: int = 1, *, mean_log: float = 3.0, spread: float = 0.5, longest: int = 80) -> list[Pair]:
    """Generates pairs of ids without BOS and EOS, with Zipfian words and log-normal lengths as in IWSLT14 (median 20, at most `longest`).

    A target is about as long as its source and maps the source's words to other ids, so that there is something to learn.
    """
    rng = random.Random(seed)
    words = vocab - FIRST_WORD
    weights = [1.0 / (rank + 10) for rank in range(words)]
    pairs = []
    for _ in range(sentences):
        length = min(longest, max(1, round(rng.lognormvariate(mean_log, spread))))
        source = rng.choices(range(words), weights, k=length)
        target = [FIRST_WORD + (word * 7 + 3) % words for word in source]
        other = max(1, min(longest, round(length * rng.uniform(0.85, 1.15))))
        target = target[:other] + target[: max(0, other - length)]
        pairs.append(([FIRST_WORD + word for word in source], target))
    return pairs
