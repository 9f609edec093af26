"""Builds a store: tokenises and filters the training text, learns the segmenters and encodes every split."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from orchestrator.data import existing, subword
from orchestrator.data.sentences import MARK
from orchestrator.data.store import processing
from orchestrator.data.text import CorpusText
from orchestrator.data.text_processor import SIDES, TextProcessor
from orchestrator.errors import UserError
from orchestrator.specs.schema import DataSpec

CHUNK = 4096
T = TypeVar("T")


def build(data: DataSpec, manifest: dict[str, Any], text: CorpusText, out: Path, train: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Writes all files of a store except `about.json`. Returns its `stats`. Raises UserError for malformed text.

    train: the rows of the training text.
    """
    processor = TextProcessor(out, processing(manifest))
    work = [out / f"{side}.work" for side in SIDES]
    dropped = _tokenise_train(data, train, processor, work)
    kept = dropped.pop("kept")
    if not kept:
        raise UserError(f"no training pair is left of {text.where('train')[0]} after filtering: {_counts(dropped)}")
    if data.subword.existing:
        segmenters = existing.segmenters(data.subword, existing.files(data.subword, text.data_dir), work)
    else:
        segmenters = _learn(data, manifest["languages"], work, kept, [MARK] if processor.documents else [])
    names = processor.config["vocabularies"]
    for name, segmenter in zip(names, segmenters, strict=False):
        segmenter.save(out / f"{name}.vocab")
    stats: dict[str, Any] = {"sizes": [s.size for s in segmenters], "splits": {}}
    stats["vocab_sha256"] = {name: hashlib.sha256((out / f"{name}.vocab").read_bytes()).hexdigest() for name in names}
    counts = _encode(zip(*map(_read, work), strict=True), processor, out, "train", data)
    dropped |= counts["dropped"]
    if not counts["pairs"]:
        raise UserError(f"no training pair is left of {text.where('train')[0]} after filtering: {_counts(dropped)}")
    stats["splits"]["train"] = counts | {"dropped": dropped, "references": 1}
    for path in work:
        path.unlink()
    for split in text.held_out:
        stats["splits"][split] = _held_out(split, text, processor, out, data)
    return stats


def _tokenise_train(data: DataSpec, train: Iterable[tuple[str, ...]], processor: TextProcessor, work: list[Path]) -> dict[str, int]:
    """Writes the tokenised pairs that pass `max_words`. Returns counts {kept, empty, max_words}."""
    counts = {"kept": 0, "empty": 0, "max_words": 0}
    options: dict[str, Any] = {"mode": "w", "encoding": "utf-8", "newline": "\n"}
    with work[0].open(**options) as src_out, work[1].open(**options) as tgt_out:
        for rows in _chunks(train):
            src, tgt = (processor.tokenise([row[i] for row in rows], side) for i, side in enumerate(SIDES))
            for s, t in zip(src, tgt, strict=True):
                longest, shortest = max(words := (len(s.split()), len(t.split()))), min(words)
                reason = "empty" if not shortest else "max_words" if data.max_words and longest > data.max_words else "kept"
                counts[reason] += 1
                if reason == "kept":
                    src_out.write(s + "\n")
                    tgt_out.write(t + "\n")
    return counts


def _learn(data: DataSpec, languages: list[str], work: list[Path], count: int, user_symbols: list[str]) -> list[subword.Segmenter]:
    """Learns the segmenters of source and target; a joint one is returned twice."""
    kind, size = data.subword.kind, data.subword.size
    if data.subword.joint or data.subword.merges == "joint":
        both = subword.learn(chain(_read(work[0]), _read(work[1])), 2 * count, kind, size, languages, user_symbols)
        if data.subword.joint:
            return [both] * 2
        always = range(len(subword.SPECIALS) + len(user_symbols))
        return [subword.UsedPieces(both, sorted({*always, *subword.used_ids(both, _read(path))})) for path in work]
    sides = zip(work, languages, strict=True)
    return [subword.learn(_read(path), count, kind, size, [language], user_symbols) for path, language in sides]


def _encode(rows: Iterable[tuple[str, str]], processor: TextProcessor, out: Path, split: str, data: DataSpec) -> dict[str, Any]:
    """Writes the arrays of a split, the training split filtered by length.

    Returns {pairs, tokens: [src, tgt], unknown: [..], dropped}.
    """
    types = [np.uint16 if segmenter.size <= 1 << 16 else np.int32 for segmenter in processor.segmenters.values()]
    flat: list[list[np.ndarray]] = [[], []]
    lengths: list[list[int]] = [[], []]
    dropped = {"max_length": 0, "max_ratio": 0}
    for chunk in _chunks(rows):
        encoded = [processor.encode_tokens([row[i] for row in chunk], side) for i, side in enumerate(SIDES)]
        keep = []
        for s, t in zip(*encoded, strict=True):
            reason = _too_long(len(s), len(t), data) if split == "train" else None
            if reason:
                dropped[reason] += 1
            else:
                keep.append((s, t))
        for i in range(2):
            lengths[i] += [len(pair[i]) for pair in keep]
            flat[i].append(np.fromiter(chain.from_iterable(pair[i] for pair in keep), dtype=types[i]))
    arrays = [np.concatenate([*parts, np.empty(0, dtype)]) for parts, dtype in zip(flat, types, strict=True)]
    for side, array, counts in zip(SIDES, arrays, lengths, strict=True):
        np.save(out / f"{split}.{side}.npy", array, allow_pickle=False)
        np.save(out / f"{split}.{side}.offsets.npy", np.cumsum([0, *counts], dtype=np.int64), allow_pickle=False)
    unknown = [int((array == subword.UNK).sum()) for array in arrays]
    return {"pairs": len(lengths[0]), "tokens": [len(array) for array in arrays], "unknown": unknown, "dropped": dropped}


def _held_out(split: str, text: CorpusText, processor: TextProcessor, out: Path, data: DataSpec) -> dict[str, Any]:
    """Writes a held-out split, unfiltered and with its raw lines. Raises UserError for empty lines."""
    rows = list(text.rows(split))
    if not rows:
        raise UserError(f"{text.where(split)[0]}: the file is empty")
    for i, name in enumerate(text.where(split)):
        if empty := [n for n, row in enumerate(rows, 1) if not row[i].strip()]:
            raise UserError(f"{name}: {len(empty):,} empty lines, the first is line {empty[0]}; {split} must have none")
    src, *references = (list(column) for column in zip(*rows, strict=True))
    files = {"src": src} | {f"ref{i}": lines for i, lines in enumerate(references)}
    for i, lines in enumerate(text.raw(split)):
        if len(lines) != len(rows):
            raise UserError(f"{split}: {len(lines):,} lines of raw references {i}; expected {len(rows):,}, as many as tokenised ones")
        files[f"raw{i}"] = lines
    for name, lines in files.items():
        (out / f"{split}.{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    pairs = zip(processor.tokenise(src, "src"), processor.tokenise(references[0], "tgt"), strict=True)
    return _encode(pairs, processor, out, split, data) | {"references": len(references)}


def _too_long(src: int, tgt: int, data: DataSpec) -> str | None:
    if data.max_length is not None and max(src, tgt) > data.max_length:
        return "max_length"
    if data.max_ratio is not None and max(src, tgt) > data.max_ratio * min(src, tgt):
        return "max_ratio"
    return None


def _read(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n")


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


def _counts(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count:,} by {name}" for name, count in dropped.items() if count) or "the text has no lines"
