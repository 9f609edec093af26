"""Text of subwords, for the axes of attention figures."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.data.store import Prepared

END = "</s>"


def pieces(prepared: Prepared, ids: Sequence[int], side: str = "tgt") -> list[str]:
    """Returns the text of each id, ending in `@@` if the next subword continues the word."""
    texts = prepared.decode_tokens([list(ids[: n + 1]) for n in range(len(ids))], side)
    added = [text[len(before) :] for before, text in zip(["", *texts], texts, strict=False)]
    ends = [i + 1 == len(added) or added[i + 1][:1] == " " for i in range(len(added))]
    return [piece.strip() + ("" if end else "@@") for piece, end in zip(added, ends, strict=True)]
