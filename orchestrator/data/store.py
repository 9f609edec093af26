"""Prepared text on disk in `cache_dir/<key[:16]>/`: written once, then read-only and memory-mapped by every trial.

about.json                        {"key", "manifest", "stats", "files": {name: bytes}, "sha256": {name: sum}}, sealed (`files.documents`)
src.vocab, tgt.vocab | joint.vocab  the segmenters; also src.used and tgt.used if the merges are joint and the vocabularies are not
SPLIT.src.npy, SPLIT.tgt.npy      flat token ids, uint16 (int32 from 65,537 ids on), without BOS and EOS
SPLIT.src.offsets.npy, ...        int64 [pairs + 1]
SPLIT.src.txt, SPLIT.ref0.txt ..  lines of held-out splits as `CorpusText` has them; SPLIT.raw0.txt ..: references of a corpus of tokens
"""

from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orchestrator.data import sacrebleu_sets, subword
from orchestrator.data.corpus import read_lines
from orchestrator.data.integrity import VerifiedFiles
from orchestrator.data.text_processor import SIDES, TextProcessor
from orchestrator.errors import UserError
from orchestrator.files.documents import read_or_tell
from orchestrator.specs import public_tests
from orchestrator.specs.text_form import RAW, normalised

ABOUT = "about.json"
Ids = npt.NDArray[Any]


class Pairs:
    """One split: flat token ids of both sides, without BOS and EOS, and the offset of each sentence."""

    def __init__(self, src: Ids, src_offsets: Ids, tgt: Ids, tgt_offsets: Ids) -> None:
        self.src, self.src_offsets, self.tgt, self.tgt_offsets = src, src_offsets, tgt, tgt_offsets

    def __len__(self) -> int:
        return len(self.src_offsets) - 1

    @cached_property
    def src_lengths(self) -> Ids:
        """Tokens of each source without EOS. [N]"""
        return np.diff(self.src_offsets)

    @cached_property
    def tgt_lengths(self) -> Ids:
        """Tokens of each target without BOS and EOS. [N]"""
        return np.diff(self.tgt_offsets)

    def __getitem__(self, i: int) -> tuple[list[int], list[int]]:
        if not 0 <= i < len(self):
            raise IndexError(i)
        sides = ((self.src, self.src_offsets), (self.tgt, self.tgt_offsets))
        src, tgt = (ids[offsets[i] : offsets[i + 1]].tolist() for ids, offsets in sides)
        return src, tgt


def processing(manifest: dict[str, Any]) -> dict[str, Any]:
    """The `config` of a corpus's TextProcessor."""
    preparation, subwords = manifest["preparation"], manifest["preparation"]["subword"]
    return {
        **{name: preparation.get(name) for name in ("tokenizer", "lowercase", "truncate")},
        **{name: manifest.get(name) for name in ("languages", "normal_form", "pieces")},
        "subword": subwords["kind"],
        "vocabularies": ["joint"] if subwords["joint"] else list(SIDES),
        "documents": "documents" in manifest,
        "form": manifest.get("form", RAW),
    }


class Prepared(TextProcessor):
    """A corpus prepared for training and scoring.

    manifest: text and options it comes from; stats: counts, filters, vocabulary hashes; files: its files, with sha256 verified on opening.
    """

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self.path, self.key = path, str(record["key"])
        self.manifest: dict[str, Any] = record["manifest"]
        super().__init__(path, processing(self.manifest))
        self.stats: dict[str, Any] = record["stats"]
        self.files = VerifiedFiles(path, record["files"], record["sha256"])
        self.target_language: str = self.manifest["languages"][1]
        self.src_size, self.tgt_size = (int(n) for n in self.stats["sizes"])
        self._pairs: dict[str, Pairs] = {}
        self._public_sets: dict[str, list[list[str]]] = {}

    def unknown(self, split: str) -> list[float]:
        """Share of the source's and of the target's tokens that are UNK."""
        if self._public(split):
            return [float((ids == subword.UNK).mean()) for ids in (self.pairs(split).src, self.pairs(split).tgt)]
        size = self.stats["splits"][split]
        return [unknown / max(1, tokens) for unknown, tokens in zip(size["unknown"], size["tokens"], strict=True)]

    def pairs(self, split: str) -> Pairs:
        """Token ids of a split, with the first reference as target. Raises UserError for an unknown split."""
        if split not in self._pairs and (public := self._public(split)):
            sides = [self.encode(lines, side) for lines, side in zip(public, SIDES, strict=False)]
            flat = ((np.array([*chain(*ids)]), np.cumsum([0, *map(len, ids)])) for ids in sides)
            self._pairs[split] = Pairs(*chain(*flat))
        elif split not in self._pairs:
            names = (f"{split}.{side}{part}.npy" for side in SIDES for part in ("", ".offsets"))
            self._pairs[split] = Pairs(*(np.load(self.files.verified(name), mmap_mode="r", allow_pickle=False) for name in names))
        return self._pairs[split]

    def sources(self, split: str) -> list[str]:
        """Unchanged source lines of a held-out split."""
        return (self._public(split) or [self._raw(split, "src")])[0]

    def references(self, split: str) -> list[list[str]]:
        """Unchanged reference streams of a held-out split (outer: stream; inner: sentence)."""
        if public := self._public(split):
            return public[1:]
        return [self._raw(split, f"ref{i}") for i in range(self.stats["splits"][split]["references"])]

    def reference_text(self, split: str) -> list[list[str]]:
        """References as running text: for a tokenised corpus its raw references, or else its tokens, unescaped and detokenised."""
        if self.form == RAW:
            return self.references(split)
        if split in self.manifest.get("raw", {}):
            return [self._raw(split, f"raw{i}") for i in range(len(self.manifest["raw"][split]))]
        return [self._tokenizers["tgt"].detokenise(stream) for stream in self.references(split)]

    def vocabulary(self, name: str) -> list[Path]:
        """The files of a segmenter (`joint`, `src` or `tgt`): its model and, if it has one, the list of ids it uses."""
        used = f"{name}{subword.USED}"
        has_used = used in self.files.sizes or (self.path / used).exists()
        return [self.files.verified(file) for file in (f"{name}.vocab", *([used] * has_used))]

    def _public(self, split: str) -> list[list[str]] | None:
        """Source and references of a test set of sacreBLEU, in the corpus's normal form; None for a split of the corpus.

        Raises UserError for a name that is neither, and like `sacrebleu_sets.rows`.
        """
        if split in self.stats["splits"]:
            return None
        languages = self.config["languages"]
        if public_tests.identity(split, languages) is None:
            raise UserError(f"the prepared corpus has no split {split!r}; it has {', '.join(self.stats['splits'])}")
        if split not in self._public_sets:
            columns = zip(*sacrebleu_sets.rows(split, "-".join(languages)), strict=True)
            self._public_sets[split] = [normalised(column, self.normal_form) for column in columns]
        return self._public_sets[split]

    def _raw(self, split: str, name: str) -> list[str]:
        if split == "train":
            raise UserError("the raw lines of train are not kept; ask for valid or a test set")
        return read_lines(self.files.verified(f"{split}.{name}.txt"))


def load(path: Path, key: str) -> Prepared | None:
    """The store at `path`, or None if it is absent or of an earlier version, or, with a warning, if `about.json` was altered."""
    record = read_or_tell(path / ABOUT)
    return None if record is None or record.get("key") != key else Prepared(path, record)
