"""Text that is in subwords already: refused, or joined where the corpus declares it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from orchestrator.errors import UserError
from orchestrator.specs.positions import shown
from orchestrator.specs.text_form import MARKS, Pieces, join

HEAD, MIN_LINES, MIN_SHARE = 3000, 3, 0.01  # lines that are read, and how many of them have a mark in a text of pieces


def joined(rows: Iterable[tuple[str, ...]], pieces: Pieces | None, where: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the rows with the declared `pieces` joined. Raises UserError for other pieces in a column; `where` names the columns."""
    rows = iter(rows)
    head = list(islice(rows, HEAD))
    for name, lines in zip(where, zip(*head, strict=True), strict=False):
        for kind, mark in MARKS.items():
            found = [number for number, line in enumerate(lines, 1) if mark.search(line)]
            if kind != pieces and len(found) >= max(MIN_SHARE * len(lines), min(MIN_LINES, len(lines))):
                some = f"{len(found):,} of {len(lines):,} lines are cut into subwords ({shown(lines[found[0] - 1], 60)})"
                remedy = f"or pieces: {kind} in the corpus's file (data add --pieces {kind}), which joins them"
                raise UserError(f"{name}: line {found[0]}: {some}; expected whole words, {remedy}")
    for row in chain(head, rows):
        yield row if pieces is None else tuple(join(line, pieces) for line in row)
