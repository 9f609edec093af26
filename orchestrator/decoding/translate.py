"""Decodes whole texts in batches of similar length; results are in input order.

An empty source gives an empty output without a run of the model.
"""

import sys
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import nn

from models.inference import PrecisionError, prepared
from orchestrator.data.lines import decoded
from orchestrator.data.subword import EOS, PAD
from orchestrator.data.text_processor import TextProcessor
from orchestrator.decoding.beam import Hypothesis, beam_search
from orchestrator.errors import UserError
from orchestrator.specs.schema import DecodeSpec
from orchestrator.specs.text_form import MARKS, join, not_running_text

BATCH_TOKENS, BATCH_SENTENCES = 8192, 256
"""Maximum source tokens and sentences of a batch on an accelerator, for up to two hypotheses per sentence. With more hypotheses, both fall
in proportion, down to LEAST_TOKENS and LEAST_SENTENCES."""
LEAST_TOKENS, LEAST_SENTENCES = 2048, 64
CPU_TOKENS, CPU_GREEDY, CPU_SENTENCES = 2048, 48, 32
"""A processor reads the batch's keys and values at each step: more of them leave its caches."""
MAX_SUBWORDS = 1024  # of a line in `translate_lines`: time and memory grow with the square of its length
MAX_CHARACTERS = 16 * MAX_SUBWORDS  # of such a line before tokenisation


def decode_corpus(
    model: Any, ids: Sequence[Sequence[int]], decode: DecodeSpec, *, batch_tokens: int | None = None, batch_sentences: int | None = None
) -> list[Hypothesis]:
    """Returns the best output of each source, in input order. `ids` and the ids of the outputs have no BOS and EOS. batch_tokens: maximum
    of padded source tokens per batch (a single sentence may be longer); batch_sentences: of sentences; None: those of `batch_limits`.
    UserError: a source is longer than the learned positions, or this machine cannot decode in `decode.precision`."""
    device = next(model.parameters()).device
    tokens, sentences = batch_limits(decode.beam_size, device)
    tokens, sentences = batch_tokens or tokens, batch_sentences or sentences
    results = [Hypothesis([], 0.0, 0.0) for _ in ids]
    longest, most = 1 + max(map(len, ids), default=0), getattr(model, "max_positions", None)
    if most is not None and longest > most:
        raise UserError(
            f"decode: found a source of {longest} subwords with its EOS; expected at most {most}, the positions the model learned"
        )
    try:
        with prepared(model, decode.precision):
            for indices in batches([len(source) for source in ids], tokens, sentences):
                found = beam_search(model, pad([ids[i] for i in indices]).to(device), decode)
                for index, hypothesis in zip(indices, found, strict=True):
                    results[index] = hypothesis
    except PrecisionError as error:
        raise UserError(f"decode: {error}") from None
    return results


def lines_of(data: bytes) -> list[str]:
    """The lines of a UTF-8 text from standard input, as `data.corpus` reads them. UserError for the first invalid line."""
    text = data.removeprefix(BOM_UTF8)
    return decoded("stdin", text.removesuffix(b"\n"), 0) if text else []


def translate_lines(
    model: Any, text: TextProcessor, lines: Sequence[str], decode: DecodeSpec, warn: Callable[[str], None] = lambda line: None
) -> list[str]:
    """Detokenised translations of source lines in running text or in the corpus's pieces, in input order.

    A line without a visible character gives an empty line. `warn` names the first line with another subword mark or an escape.

    Lines are cut after MAX_SUBWORDS subwords, or where the learned positions leave room for EOS alone, with a message to `warn`.
    """
    lines = [join(line, text.pieces) if text.pieces and MARKS[text.pieces].search(line) else line for line in lines]
    odd = ((number, what) for number, line in enumerate(lines, start=1) if (what := not_running_text(line)))
    for number, what in islice(odd, 1):
        warn(f"stdin:{number}: found {what}; expected running text")
    limit = min(MAX_SUBWORDS, (getattr(model, "max_positions", None) or sys.maxsize) - 1)
    ids = text.encode_text([line[:MAX_CHARACTERS] if _visible(line) else "" for line in lines], "src")
    for number, (line, source) in enumerate(zip(lines, ids, strict=True), start=1):
        if len(source) > limit or len(line) > MAX_CHARACTERS:
            ids[number - 1] = text.cut(source, limit)
            warn(f"stdin:{number}: found a line of {len(line)} characters; its first {len(ids[number - 1])} subwords are translated")
    return text.decode([hypothesis.ids for hypothesis in decode_corpus(model, ids, decode)], "tgt")


def _visible(line: str) -> bool:
    """False for a line of spaces, control characters and format characters (a zero-width space, say)."""
    return any(unicodedata.category(character) not in ("Cc", "Cf", "Zs", "Zl", "Zp") for character in line)


def batch_limits(beam: int, device: torch.device) -> tuple[int, int]:
    """The maxima of a batch's padded source tokens and of its sentences."""
    if device.type == "cpu":
        return CPU_TOKENS, CPU_GREEDY if beam == 1 else CPU_SENTENCES
    return max(LEAST_TOKENS, 2 * BATCH_TOKENS // max(2, beam)), max(LEAST_SENTENCES, 2 * BATCH_SENTENCES // max(2, beam))


def batches(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS, batch_sentences: int = BATCH_SENTENCES) -> list[list[int]]:
    """Batches of indices of the non-empty sentences, longest first so that a lack of memory shows at once. `lengths` exclude EOS. Rows
    times longest length (with EOS) is at most `batch_tokens`."""
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
    """Pads the sources to [B, S], each with its EOS, then PAD."""
    width = max(len(source) for source in sources) + 1
    return torch.tensor([[*source, EOS, *([PAD] * (width - len(source) - 1))] for source in sources], dtype=torch.long)


class FullLength(nn.Module):
    """Wraps a model for speed measurements: EOS is impossible, and every output reaches its length limit."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.encode, self.decode, self.max_positions = model.encode, model.decode, model.max_positions

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[.., D] -> [.., V]."""
        logits: torch.Tensor = self.model.logits(hidden)
        logits[..., EOS] = -1e9
        return logits
