"""Segmentation into ids by sentencepiece BPE or unigram, by frequent words, or by existing models.

PAD is 0, UNK 1, BOS 2, EOS 3 in each.

Sentencepiece runs with normalisation `identity`, so encoding and decoding a line only changes runs of spaces and unseen characters.
Learning is deterministic: one thread, no shuffling, no file names inside the model.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

from orchestrator.errors import UserError

PAD, UNK, BOS, EOS = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
MAX_LEARNED = 2_000_000
"""Maximum lines for learning; longer text is subsampled to every n-th line."""
USED = ".used"
"""Suffix of the file with the pieces of a model that one side uses."""
END = "</w>"
"""Mark of a word's end in codes of subword-nmt."""
LARGE_ALPHABETS = ("zh", "yue", "ja", "ko")


class Segmenter(Protocol):
    """Converts lines to ids and back. The ids never contain PAD, BOS or EOS."""

    size: int

    def encode(self, lines: list[str]) -> list[list[int]]: ...
    def decode(self, ids: list[list[int]]) -> list[str]: ...
    def save(self, path: Path) -> None: ...


class Pieces:
    """A sentencepiece model."""

    def __init__(self, proto: bytes) -> None:
        import sentencepiece

        self.proto = proto
        self.processor: Any = sentencepiece.SentencePieceProcessor(model_proto=proto, num_threads=1)
        self.size = int(self.processor.get_piece_size())
        self.controls = {self.processor.pad_id(), self.processor.bos_id(), self.processor.eos_id()}

    def encode(self, lines: list[str]) -> list[list[int]]:
        return list(self.processor.encode(lines))

    def decode(self, ids: list[list[int]]) -> list[str]:
        return list(self.processor.decode([[i for i in line if i not in self.controls] for line in ids])) if ids else []

    def save(self, path: Path) -> None:
        path.write_bytes(self.proto)


class Tokens:
    """A tokenizer.json of Hugging Face. Its special tokens are no pieces: neither text nor the model's own templates bring them in."""

    def __init__(self, content: str) -> None:
        """Raises UserError without the library, ValueError for another content."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UserError("a tokenizer.json needs the package tokenizers; expected pip install '.[hf]' in the checkout") from None
        self.content = content
        try:
            self.tokenizer: Any = Tokenizer.from_str(content)
        except Exception as error:  # the library has no other
            raise ValueError(str(error)) from None
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        special = {number for number, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}
        unknown = self.tokenizer.token_to_id(str(getattr(self.tokenizer.model, "unk_token", None)))
        self.unknown = -1 if unknown is None else int(unknown)
        self.names = {number: piece for piece, number in self.tokenizer.get_vocab().items() if number not in special | {self.unknown}}
        self.size = int(self.tokenizer.get_vocab_size())

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [self.tokenizer.encode(line, add_special_tokens=False).ids for line in lines]

    def decode(self, ids: list[list[int]]) -> list[str]:
        return [self.tokenizer.decode(line) for line in ids]

    def save(self, path: Path) -> None:
        path.write_text(self.content, encoding="utf-8")


class UsedPieces:
    """The pieces of a model that occur in the text of one side, renumbered after the specials; other pieces are UNK.

    Gives two sides with joint merges separate vocabularies (subword-nmt's joint codes, fairseq's dictionaries).
    """

    def __init__(self, pieces: Segmenter, piece_ids: Sequence[int]) -> None:
        """piece_ids: the model's id for each new id, the specials first; -1 where the model has none."""
        self.pieces, self.piece_ids = pieces, list(piece_ids)
        self.ids: dict[int, int] = {}
        for new, old in enumerate(self.piece_ids):
            self.ids.setdefault(old, new)
        self.size = len(self.piece_ids)

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(i, UNK) for i in line] for line in self.pieces.encode(lines)]

    def decode(self, ids: list[list[int]]) -> list[str]:
        known = [[self.piece_ids[i] for i in _without_specials(line)] for line in ids]
        return self.pieces.decode([[old for old in line if old >= 0] for line in known])

    def save(self, path: Path) -> None:
        self.pieces.save(path)
        path.with_suffix(USED).write_text(json.dumps(self.piece_ids), encoding="utf-8")


class Words:
    """The `size` - 4 most frequent words, ties in alphabetical order; other words are UNK."""

    def __init__(self, words: list[str]) -> None:
        self.words = [*SPECIALS, *words]
        self.ids = {word: i for i, word in enumerate(self.words) if i >= len(SPECIALS)}
        self.size = len(self.words)

    def cut(self, line: str) -> list[str]:
        return line.split()

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[self.ids.get(word, UNK) for word in self.cut(line)] for line in lines]

    def decode(self, ids: list[list[int]]) -> list[str]:
        return [" ".join(self.words[i] for i in _without_specials(line)) for line in ids]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.words[len(SPECIALS) :], ensure_ascii=False), encoding="utf-8")

    @classmethod
    def learn(cls, lines: Iterable[str], size: int, user_symbols: Sequence[str] = ()) -> "Words":
        """Learns from all lines. size: more than the specials."""
        counts = Counter(chain.from_iterable(map(str.split, lines)))
        ranked = [*user_symbols, *sorted(counts.keys() - set(user_symbols), key=lambda word: (-counts[word], word))]
        return cls(ranked[: size - len(SPECIALS)])


class Codes(Words):
    """Byte-pair encoding by codes of subword-nmt (Sennrich et al. 2016). Its words are pieces; `@@` ends those inside of a word.

    merges: pairs of symbols in the order of their priority; END is at the last letter of a word (version 0.2).
    """

    def __init__(self, merges: Sequence[Sequence[str]], pieces: list[str]) -> None:
        super().__init__(pieces)
        self.merges = [tuple(pair) for pair in merges]
        self.ranks = {pair: rank for rank, pair in reversed(list(enumerate(self.merges)))}
        self._known: dict[str, list[str]] = {}

    def cut(self, line: str) -> list[str]:
        """The pieces of a line. As in subword-nmt, spaces alone separate words."""
        for word in (words := [word for word in line.split(" ") if word]):
            if word not in self._known:
                self._known[word] = self._cut(word)
        return [piece for word in words for piece in self._known[word]]

    def _cut(self, word: str) -> list[str]:
        symbols = [*word[:-1], f"{word[-1]}{END}"]
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            merged: list[str] = []
            for symbol in symbols:
                if merged and (merged[-1], symbol) == best:
                    merged[-1] = "".join(best)
                else:
                    merged.append(symbol)
            symbols = merged
        return [*(f"{symbol}@@" for symbol in symbols[:-1]), symbols[-1].removesuffix(END)]

    def decode(self, ids: list[list[int]]) -> list[str]:
        return [line.replace("@@ ", "").removesuffix("@@") for line in super().decode(ids)]

    def save(self, path: Path) -> None:
        content = {"codes": self.merges, "pieces": self.words[len(SPECIALS) :]}
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def learn(
    lines: Iterable[str],
    count: int,
    kind: Literal["bpe", "unigram", "word"],
    size: int,
    languages: list[str],
    user_symbols: Sequence[str] = (),
) -> Segmenter:
    """Learns a segmenter of at most `size` ids, including specials and `user_symbols` (ids from 4), from `count` training lines.

    Raises UserError for no words or a `size` below the alphabet.
    """
    if kind == "word":
        return Words.learn(lines, size, user_symbols)
    import sentencepiece

    interval = max(1, -(-count // MAX_LEARNED))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for number, line in enumerate(lines) if number % interval == 0 and line),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=0.9995 if any(language in LARGE_ALPHABETS for language in languages) else 1.0,
            normalization_rule_name="identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            user_defined_symbols=list(user_symbols),
            input_sentence_size=0,
            shuffle_input_sentence=False,
            num_threads=1,
            max_sentence_length=65536,
            minloglevel=3,
        )
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"cannot learn a {kind} vocabulary of {size} pieces: {reason.rpartition(')] ')[2] or reason}") from None
    return Pieces(model.getvalue())


def load(path: Path, kind: Literal["bpe", "unigram", "word"]) -> Segmenter:
    if kind == "word":
        return Words(json.loads(path.read_text(encoding="utf-8")))
    content, used = path.read_bytes(), path.with_suffix(USED)
    found = json.loads(content) if content.lstrip().startswith(b"{") else {}
    if "codes" in found:
        return Codes(found["codes"], found["pieces"])
    pieces = Tokens(content.decode()) if found else Pieces(content)
    return UsedPieces(pieces, json.loads(used.read_text(encoding="utf-8"))) if used.is_file() else pieces


def used_ids(pieces: Segmenter, lines: Iterable[str]) -> set[int]:
    """The ids of a model that occur in `lines`."""
    return {i for text in lines for line in pieces.encode([text]) for i in line}


def _without_specials(ids: list[int]) -> list[int]:
    return [i for i in ids if i not in (PAD, BOS, EOS)]
