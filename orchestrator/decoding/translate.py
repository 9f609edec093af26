"""Decodes whole texts in batches of similar length; results are in input order.

An empty source (no tokens) gives an empty output without running the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from models.inference import PrecisionError, prepared
from orchestrator.data.sentences import truncated
from orchestrator.decoding.beam import EOS, PAD, Hypothesis, beam_search
from orchestrator.errors import UserError
from orchestrator.specs.schema import DecodeSpec

BATCH_TOKENS = 2048
BATCH_SENTENCES = 64
MAX_SUBWORDS = 1024
"""Of a line given to `translate_lines`: time and memory grow with the square of its length."""
MAX_CHARACTERS = 16 * MAX_SUBWORDS
"""Of such a line, before it is tokenised."""

Progress = Callable[[int, int], None]
"""Called after every batch with (sentences done, sentences in all)."""


class Codec(Protocol):
    """Tokenisation and detokenisation, as prepared data provides them."""

    def encode(self, lines: list[str], side: str = "src") -> list[list[int]]:
        """Token ids of lines, without BOS and EOS."""
        ...

    def decode(self, ids_list: list[list[int]], side: str = "tgt") -> list[str]:
        """Detokenised text of token ids."""
        ...


def decode_corpus(
    model: Any,
    ids: Sequence[Sequence[int]],
    decode: DecodeSpec,
    nbest: int = 1,
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_sentences: int = BATCH_SENTENCES,
    on_progress: Progress | None = None,
) -> list[list[Hypothesis]]:
    """n-best lists, best first, in input order; `ids` and the outputs' ids are without BOS and EOS.

    batch_tokens: padded source tokens of a batch at most (one sentence may be longer); batch_sentences: sentences at most.
    Errors: those of `beam_search`; UserError where this machine cannot decode in `decode.precision`.
    """
    device = next(model.parameters()).device
    results: list[list[Hypothesis]] = [[Hypothesis([], 0.0, 0.0)] for _ in ids]
    done = sum(not source for source in ids)
    longest, most = 1 + max(map(len, ids), default=0), getattr(model, "max_positions", None)
    if most is not None and longest > most:
        raise UserError(
            f"decode: found a source of {longest} subwords with its EOS; expected at most {most}, the positions the model learned"
        )
    try:
        with prepared(model, decode.precision, beam=decode.beam_size):
            for indices in batches([len(source) for source in ids], batch_tokens, batch_sentences):
                nbest_lists = beam_search(model, pad([ids[i] for i in indices]).to(device), decode, nbest)
                for index, hypotheses in zip(indices, nbest_lists, strict=True):
                    results[index] = hypotheses
                done += len(indices)
                if on_progress is not None:
                    on_progress(done, len(ids))
    except PrecisionError as error:
        raise UserError(f"decode: {error}") from None
    return results


def lines_of(data: bytes) -> list[str]:
    """The lines of a UTF-8 text. UserError for the first invalid line."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    decoded = []
    for number, line in enumerate(lines, start=1):
        try:
            decoded.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            where = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise UserError(f"stdin:{number}: found {where}; expected UTF-8") from None
    return decoded


def translate_lines(
    model: Any, prepared: Codec, lines: Sequence[str], decode: DecodeSpec, warn: Callable[[str], None] = lambda line: None
) -> list[str]:
    """Detokenised translations of raw source lines, in input order; an empty line stays empty.

    Of a longer line only the first MAX_SUBWORDS subwords are translated; `warn` receives a message.
    """
    ids = prepared.encode([line[:MAX_CHARACTERS] for line in lines], "src")
    for number, (line, source) in enumerate(zip(lines, ids, strict=True), start=1):
        if len(source) > MAX_SUBWORDS or len(line) > MAX_CHARACTERS:
            ids[number - 1] = truncated(source, MAX_SUBWORDS)
            warn(f"stdin:{number}: found a line of {len(line)} characters; its first {len(ids[number - 1])} subwords are translated")
    outputs = decode_corpus(model, ids, decode)
    return prepared.decode([hypotheses[0].ids for hypotheses in outputs], "tgt")


def batches(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS, batch_sentences: int = BATCH_SENTENCES) -> list[list[int]]:
    """Indices of non-empty sentences by batch, longest first (a want of memory shows at once); `lengths` without EOS.

    The grouping is a function of the arguments alone. Rows times longest length (EOS included) is at most `batch_tokens`.
    """
    order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: (-lengths[i], i))
    result: list[list[int]] = []
    for index in order:
        rows = result[-1] if result else []
        if not rows or len(rows) >= batch_sentences or (len(rows) + 1) * (lengths[rows[0]] + 1) > batch_tokens:
            result.append([index])
        else:
            rows.append(index)
    return result


def pad(sources: Sequence[Sequence[int]]) -> torch.Tensor:
    """[B, S]: each source with its EOS, then PAD."""
    width = max(len(source) for source in sources) + 1
    return torch.tensor([[*source, EOS, *([PAD] * (width - len(source) - 1))] for source in sources], dtype=torch.long)
