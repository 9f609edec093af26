"""Writes a resolved row as self-contained YAML, and reads it back."""

import functools
from typing import Any

import yaml

from orchestrator.errors import UserError, collecting, raise_all
from orchestrator.safe_text import visible
from orchestrator.specs import check, controls, yaml_file
from orchestrator.specs.messages import valid
from orchestrator.specs.positions import Document, KeyPath, Located, shown
from orchestrator.specs.profiles import Override, for_parent
from orchestrator.specs.resolver import Resolver
from orchestrator.specs.row import Row, as_data, row_figures
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import SEGMENT_WORDS, SingleHead, segments
from orchestrator.specs.table_file import TableFile


def to_yaml(row: Row) -> str:
    """Returns the YAML of a row, its spec and the specs of its parents; `resolve` reads it back to the same spec."""
    return dumped(as_plain(row))


def as_plain(row: Row) -> dict[str, Any]:
    data = as_data(row) | {"spec": row.spec.model_dump() if row.spec is not None and row.kind == "run" else None}
    parents = {parent.id: parent.spec.model_dump() for parent in reversed(row.lineage[:-1]) if parent.spec is not None}
    return data | ({"parents": parents} if parents else {})


def read_single(table: TableFile, resolver: Resolver, seed: int | None) -> Row:
    """Returns the row in a file printed by `show`, resolved with its parents. Raises UserError with every problem."""
    document, problems = table.document, list[str]()
    head = valid(document, SingleHead)
    control = controls.of_address(head.id)
    addresses: dict[KeyPath, str] = {("of", i): address for i, address in enumerate(head.of)}
    for path, address in ({("id",): head.id} | addresses if control is None else addresses).items():
        if not segments(address, 3, 4):
            problems.append(document.at(path).line(f"found '{shown(address)}'; expected paper/table/row: {SEGMENT_WORDS} each"))
    if (head.spec is None) == (head.kind == "run"):
        problems.append(document.at(("kind",)).line(f"found a row of kind {head.kind} {'without' if head.spec is None else 'with'} a spec"))
    figures = row_figures(Located({}, document.home), document, (), head.kind)
    spec, parent = (None, None) if head.spec is None else _spec(document, ("spec",), head, resolver, resolver.sets, problems)
    corpus = "" if spec is None or head.spec is None else head.spec["data"]["corpus"]
    with collecting(problems):
        row = resolver.made(head.id, head, figures, spec, f"{document.file}:1", corpus, parent=parent, control=control)
    raise_all([*document.problems, *problems])
    return row if seed is None else row.at(seed)


def _spec(
    document: Document, path: KeyPath, head: SingleHead, resolver: Resolver, sets: list[Override], problems: list[str]
) -> tuple[RunSpec | None, Row | None]:
    """Returns the spec at `path`, None if it is invalid, and the row that it starts from."""
    located, spec, parent = Located.of(document, path), None, None
    seed, address = located.data.pop("seed", None), located.data.pop("init_from", None)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        problems.append(located.at(("seed",)).line("found no seed; expected a whole number >= 0"))
    if address is not None and (not isinstance(address, str) or address not in head.parents or ("parents", address) == path):
        problems.append(located.at(("init_from",)).line("found a row that is not among the file's parents"))
    elif address is not None:
        # Each parent is read without itself among the parents, so that circles end.
        rest = head.model_copy(update={"parents": {name: data for name, data in head.parents.items() if ("parents", name) != path}})
        reach = for_parent(sets, located.data, head.parents[address])
        start, grand = _spec(document, ("parents", address), rest, resolver, reach, problems)
        parent = Row(address, address, "run", start, {}, [], 1, False, document.file, 1, grand)
    home = document.at(path)
    with collecting(problems):
        spec = resolver.spec(Located(check.defaults(), home).merged(Located(located.data, home, located.positions)), sets, address)
    return None if spec is None else spec.model_copy(update={"seed": seed}), parent


def dumped(data: Any) -> str:
    """Returns YAML with printable characters as they are and all others escaped; escaped text is quoted, so it reads back the same."""
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=140)
    return "\n".join(map(visible, text.split("\n")))


class Dumper(yaml.SafeDumper):
    """Writes small lists and mappings on one line, floats as in YAML 1.2, and quotes text that would not read back as itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    mantissa, e, exponent = repr(value).partition("e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}")


@functools.lru_cache(4096)
def _is_plain(value: str) -> bool:
    try:
        return yaml_file.parse(value, "").data == value and value.isprintable()
    except UserError:
        return False


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _is_plain(value) else '"')


Dumper.add_representer(float, _float)
Dumper.add_representer(str, _text)
