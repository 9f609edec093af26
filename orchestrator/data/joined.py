"""Text of several files, of files with both sides, of the Hub or of sacreBLEU, written as one pair of new files."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from orchestrator.data import formats, sacrebleu_sets
from orchestrator.data.corpus import parallel
from orchestrator.data.formats import Columns, Row, one_line
from orchestrator.data.hub import delivered
from orchestrator.data.progress import tracked
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.folders import the_file
from orchestrator.paths import own_search_spaces
from orchestrator.specs.corpora import PACKED, HuggingFace

Given = tuple[str, ...]
"""Text that the user names: files of source and references, or one with both, `hub:ID[@REVISION][:CONFIG]:SPLIT`, `sacrebleu:SET`."""
HUB, SACREBLEU = "hub:", "sacrebleu:"


@contextlib.contextmanager
def joined(parts: Mapping[str, Sequence[Given]], columns: Columns) -> Iterator[dict[str, list[Path]]]:
    """Context: source and references of each split; new files, unless the user named one source with its references in plain lines.

    The new files lie in `data/joined` of the own search spaces, named by their content; an error removes them. UserError: a fault.
    """
    for given in (given for given in parts.get("train", ()) if len(given) > 2):
        raise UserError(f"--train {' '.join(given)}: found {len(given)} files; expected two, and --train again for more text")
    with contextlib.ExitStack() as undo:
        yield {
            split: [Path(name) for name in given[0]]
            if len(given) == 1 and _plain(given[0])
            else written(split, chain.from_iterable([_rows(each, columns) for each in given]), " ".join(given[0]), undo)
            for split, given in parts.items()
        }
        undo.pop_all()


def _plain(given: Given) -> bool:
    """Whether these are parallel files of lines. Raises UserError for names that do not go together."""
    both = [name for name in given if name.startswith((HUB, SACREBLEU)) or formats.format_of(name) is not None]
    if len(given) > 1 and both:
        raise UserError(f"{both[0]}: holds both sides; expected it alone after its option, which may be repeated")
    if len(given) == 1 and not both:
        expected = "SRC TGT, or one file with both sides (.tsv, .jsonl, .tmx, .parquet; also compressed)"
        raise UserError(f"{given[0]}: found one file of lines; expected {expected}")
    return not both


def written(split: str, rows: Iterable[Row], where: str, undo: contextlib.ExitStack) -> list[Path]:
    """New files in `data/joined` of the own search spaces with source and references, named by their content; `undo` removes them.

    rows: without line ends. Raises UserError for no rows; `where` names where they come from.
    """
    folder = own_search_spaces() / "data" / "joined"
    folder.mkdir(parents=True, exist_ok=True)
    with atomic.naming(folder), contextlib.ExitStack() as stack:
        stream = tracked(rows, f"reading {split}")
        first = next(stream, None)
        if first is None:
            raise UserError(f"{where}: found no pairs")
        sides = [".src", ".tgt", *(f".tgt{n}" for n in range(2, len(first)))]
        temporary = [atomic.temporary(folder / f"new{side}") for side in sides]
        for path in temporary:
            stack.callback(path.unlink, missing_ok=True)
        outs = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in temporary]
        digest = hashlib.sha256()
        for number, row in enumerate(chain([first], stream), 1):
            if len(row) != len(first):
                raise UserError(f"{split}: pair {number:,}: found {len(row) - 1} references, expected {len(first) - 1}")
            lines = [text + "\n" for text in row]
            digest.update("\t".join(lines).encode())
            for out, line in zip(outs, lines, strict=True):
                out.write(line)
        for out in outs:
            out.close()
        paths = [folder / (digest.hexdigest()[:12] + side) for side in sides]
        for path, new in zip(paths, temporary, strict=True):
            if not path.exists():
                undo.callback(path.unlink, missing_ok=True)
            new.replace(path)
    return paths


def _rows(given: Given, columns: Columns) -> Iterator[Row]:
    if _plain(given):
        return parallel([_existing(name) for name in given])
    return (tuple(map(one_line, row)) for row in _records(given[0], columns))


def _records(name: str, columns: Columns) -> Iterator[Row]:
    """The pairs of what holds both sides. Their text may have line ends."""
    if name.startswith(SACREBLEU):
        return sacrebleu_sets.rows(name.removeprefix(SACREBLEU), "-".join(columns.languages))
    if name.startswith(HUB):
        return delivered(_dataset(name), "split", columns, {})
    return formats.rows(_existing(name), columns)


def _dataset(name: str) -> HuggingFace:
    address, *rest = name.removeprefix(HUB).split(":")
    identity, _, revision = address.partition("@")
    try:
        (split,), config = rest[-1:], next(iter(rest[:-1]), None)
        if len(rest) > 2:
            raise ValueError
        return HuggingFace(kind="huggingface", id=identity, config=config, revision=revision or None, splits={"split": split})
    except ValueError:
        expected = "hub:ID[@REVISION][:CONFIG]:SPLIT, such as hub:wmt/wmt16:de-en:train; REVISION: a commit of refs/convert/parquet"
        raise UserError(f"{name}: expected {expected}") from None


def _existing(name: str) -> Path:
    found = the_file([Path(name + suffix) for suffix in ("", *PACKED)])
    if found is None:
        raise UserError(f"{name}[.gz]: no such file")
    return found
