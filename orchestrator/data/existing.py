"""Existing subword models and vocabularies: sentencepiece models, tokenizer.json, codes of subword-nmt, dictionaries of fairseq."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from orchestrator.data.corpus import iter_lines, read_lines
from orchestrator.data.subword import Codes, Pieces, Segmenter, Tokens, UsedPieces, Words, used_ids
from orchestrator.errors import UserError
from orchestrator.files.folders import no_file
from orchestrator.specs.positions import shown
from orchestrator.specs.schema import Subword


def files(subword: Subword, data_dir: Path | None) -> dict[str, list[Path]]:
    """Returns the files of `model` and `dictionary`, if given. UserError: a file is missing."""
    found: dict[str, list[Path]] = {}
    for key, names in (("model", subword.model), ("dictionary", subword.dictionary)):
        for name in names or ():
            path = Path(name) if data_dir is None else data_dir / name
            if (reason := no_file(path)) is not None or not path.is_file():
                raise UserError(f"data.subword.{key}: {path}: {reason or 'no such file'}")
            found.setdefault(key, []).append(path)
    return found


def segmenters(subword: Subword, given: Mapping[str, Sequence[Path]], texts: Sequence[Path]) -> list[Segmenter]:
    """The segmenters of source and target; a joint one is returned twice.

    texts: training text of each side. It decides the pieces of codes and of a model of two vocabularies. Raises UserError for other files.
    """
    models, dictionaries = given.get("model", []), given.get("dictionary", [])
    shared = not subword.joint and len(models) == 1
    sides = [list(texts)] if subword.joint else [[text] for text in texts]
    found = []
    for number, own in enumerate(sides):
        pieces = _dictionary(dictionaries[min(number, len(dictionaries) - 1)]) if dictionaries else None
        lines = chain.from_iterable(map(iter_lines, own))
        found.append(_segmenter(models[min(number, len(models) - 1)], pieces, lines, shared) if models else Words(pieces or []))
    return found * 2 if subword.joint else found


def _segmenter(path: Path, pieces: list[str] | None, lines: Iterator[str], shared: bool) -> Segmenter:
    content = path.read_bytes()
    if content.startswith(b"#version: 0.2"):
        merges = _merges(path)
        counts = Counter(chain.from_iterable(map(Codes(merges, []).cut, lines)))
        return Codes(merges, pieces or sorted(counts, key=lambda piece: (-counts[piece], piece)))
    model = _tokens(path, content) if content.lstrip().startswith(b"{") else _sentencepiece(path, content)
    return _renumbered(path, *model, pieces, lines, shared)


def _merges(path: Path) -> list[list[str]]:
    pairs = [line.rstrip("\r\n ").split(" ") for line in read_lines(path)[1:]]
    for number, pair in enumerate(pairs, 2):
        if len(pair) != 2:
            raise UserError(f"{path}: line {number}: found {shown(' '.join(pair), 40)}; expected two symbols, as subword-nmt writes them")
    return pairs


def _sentencepiece(path: Path, content: bytes) -> tuple[Segmenter, list[int], dict[int, str]]:
    """(model, ids of our specials, id -> piece of the others)"""
    try:
        model = Pieces(content)
    except RuntimeError:
        model = None
    if model is None or not model.size:
        expected = "a sentencepiece model, a tokenizer.json or codes of subword-nmt (version 0.2)"
        raise UserError(f"{path}: found none of these; expected {expected}")
    own = model.processor
    usual = [i for i in range(model.size) if not (own.is_control(i) or own.is_unknown(i) or own.is_unused(i))]
    return model, [own.pad_id(), own.unk_id(), own.bos_id(), own.eos_id()], {i: str(own.id_to_piece(i)) for i in usual}


def _tokens(path: Path, content: bytes) -> tuple[Segmenter, list[int], dict[int, str]]:
    """As `_sentencepiece`."""
    try:
        model = Tokens(content.decode())
    except ValueError as error:
        raise UserError(f"{path}: found {shown(' '.join(str(error).split()), 80)}; expected a tokenizer.json of Hugging Face") from None
    return model, [-1, model.unknown, -1, -1], {number: model.names[number] for number in sorted(model.names)}


def _renumbered(
    path: Path, model: Segmenter, specials: list[int], names: dict[int, str], pieces: list[str] | None, lines: Iterator[str], shared: bool
) -> Segmenter:
    """Returns the model with our specials first, then the dictionary's pieces in its order, or all or the used pieces of the model."""
    if pieces is not None:
        numbers = {piece: number for number, piece in names.items()}
        if not any(piece in numbers for piece in pieces):
            raise UserError(f"{path}: has none of the pieces of the dictionary; expected the dictionary of this model")
        return UsedPieces(model, [*specials, *(numbers.get(piece, specials[1]) for piece in pieces)])
    used = used_ids(model, lines) if shared else names.keys()
    return UsedPieces(model, [*specials, *(i for i in names if i in used)])


def _dictionary(path: Path) -> list[str]:
    """Returns the pieces of a fairseq dictionary, without its specials."""
    pieces = []
    for number, line in enumerate(iter_lines(path), 1):
        piece, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not piece or not count.isdigit():
            raise UserError(f"{path}: line {number}: found {shown(line, 40)}; expected a piece and its count")
        pieces.append(piece)
    return [piece for piece in pieces if piece not in ("<s>", "<pad>", "</s>", "<unk>")]
