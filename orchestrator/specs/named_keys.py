"""Keys of the spec that a table's file names outside its rows' sections: in `assumed`, in a claim's `changes`, in `tune`."""

from collections.abc import Iterator, Sequence
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs.components import schema
from orchestrator.specs.positions import KeyPath, nearest, shown
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table_file import TableFile


def dotted_keys(value: Any, above: str = "") -> Iterator[str]:
    """Yields every key of plain data, such as `model.regularizers.weight`. Items of a list have no index."""
    for item in value if isinstance(value, list) else ():
        yield from dotted_keys(item, above)
    for name, part in value.items() if isinstance(value, dict) else ():
        yield f"{above}{name}"
        yield from dotted_keys(part, f"{above}{name}.")


def check(table: TableFile, specs: Sequence[RunSpec]) -> list[str]:
    """Returns an error line for each named key that none of the specs has. specs: of all rows of the file."""
    document, data = table.document, [spec.model_dump() for spec in specs]
    used = [("templates", name) for row in table.written.values() for name in row.head.use]
    lists: list[KeyPath] = [(), *used, *document.below("rows")]
    named = [place for path in lists for place in document.below(*path, "assumed").items()]
    named += [place for path in document.below("claims") for place in document.below(*path, "changes").items()]
    drawn = {path: str(path[-1]) for section in ("space", "own") for path in document.below("tune", section)}
    known = {key for each in data for key in dotted_keys(each)}
    kinds = [(registry, kind) for registry in REGISTRIES for kind in REGISTRIES[registry].names()] if drawn else []
    names = {key for key in known if "." in key} | {option for kind in kinds for option in schema(*kind).model_fields}
    found = [(path, key, known) for path, key in named if isinstance(key, str)] + [(path, key, names) for path, key in drawn.items()]
    lines = ((path, f"found '{shown(key)}', which no row has; {nearest(key, keys)}") for path, key, keys in found if key not in keys)
    return [document.at(path).line(words) for path, words in lines]
