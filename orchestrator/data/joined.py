"""Text in several pairs of files, joined to one pair of new files."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.data.corpus import parallel
from orchestrator.data.integrity import file_hash
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.folders import the_file
from orchestrator.paths import own_search_spaces


@contextlib.contextmanager
def joined(parts: Mapping[str, Sequence[tuple[Path, Path]]]) -> Iterator[dict[str, list[Path]]]:
    """Context: source and target of each split; of several pairs, new files with their lines one pair after the other.

    The content of the pairs names the new files, in `data/joined` of the own search spaces. An error in the block removes them. Raises
    UserError for files that cannot be read, and for a pair with different numbers of lines.
    """
    with contextlib.ExitStack() as undo:
        yield {split: list(pairs[0]) if len(pairs) == 1 else _join(pairs, undo) for split, pairs in parts.items()}
        undo.pop_all()


def _join(pairs: Sequence[tuple[Path, Path]], undo: contextlib.ExitStack) -> list[Path]:
    found = [[_existing(path) for path in pair] for pair in pairs]
    sums = "".join(file_hash(path) for pair in found for path in pair)
    stem = own_search_spaces() / "data" / "joined" / hashlib.sha256(sums.encode()).hexdigest()[:12]
    paths = [stem.with_suffix(suffix) for suffix in (".src", ".tgt")]
    stem.parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if not path.exists():
            undo.callback(path.unlink, missing_ok=True)
    with contextlib.ExitStack() as stack:
        temporary = [stack.enter_context(atomic.replacing(path)) for path in paths]
        outs = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in temporary]
        for pair in found:
            for row in parallel(pair):
                for out, line in zip(outs, row, strict=True):
                    out.write(line + "\n")
    return paths


def _existing(path: Path) -> Path:
    found = the_file([path, path.with_name(f"{path.name}.gz")])
    if found is None:
        raise UserError(f"{path}[.gz]: no such file")
    return found
