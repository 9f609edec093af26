"""Reads files that hold both sides of a corpus: tab-separated columns, JSON lines, TMX and Parquet, plain or compressed."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from orchestrator.data.corpus import iter_lines, open_text
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.specs.corpora import PACKED
from orchestrator.specs.languages import primary_subtag
from orchestrator.specs.positions import shown

Row = tuple[str, ...]
FORMATS = ("tsv", "jsonl", "tmx", "parquet")
_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements of TMX whose content is markup of another format."""
_HEADING = re.compile(
    r"(?i)\w*_\w*|[a-z]+\d|[a-z]{2,3}-[a-z]{2,4}|((source|target|src|tgt|input|output|original|translation|text|sentence)\b ?)+"
)
"""If two fields of the first line both match this, they are names of columns."""
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Columns(NamedTuple):
    """Which columns hold the text. languages: codes of source and target; names: the user's choice, or none to try the usual names.

    A name is a column, `column.key` of a nested one, or the number of a column, from 1, of tab-separated text.
    """

    languages: tuple[str, str]
    names: tuple[str, ...] = ()

    def choose(self, known: Sequence[str]) -> tuple[str, ...] | None:
        """The names of source and references among the known ones. None if no usual names are there."""
        src, tgt = self.languages
        usual = [(src, tgt), (f"translation.{src}", f"translation.{tgt}"), ("src", "tgt"), ("source", "target")]
        tried = [self.names] if self.names else [*usual, tuple(primary_subtag(code) for code in self.languages)]
        return next((names for names in tried if {*names} <= {*known}), None)


def format_of(name: str) -> str | None:
    """One of FORMATS by the suffix of a file's name, None for plain text."""
    suffixes = [suffix for suffix in Path(name).suffixes if suffix not in PACKED]
    return next((kind for kind in FORMATS if suffixes and suffixes[-1].lower() == f".{kind}"), None)


def rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yields source and references of each pair. Raises UserError at the first fault, with its line or record and what was expected."""
    kind = format_of(path.name)
    if kind == "tsv":
        yield from _tsv(path, columns)
    elif kind == "tmx":
        yield from _tmx(path, columns)
    else:
        records = _json_lines(path) if kind == "jsonl" else _parquet(path)
        yield from pick(records, columns, str(path), "line" if kind == "jsonl" else "record")


def pick(records: Iterable[Mapping[str, Any]], columns: Columns, where: str, unit: str = "record") -> Iterator[Row]:
    """Yields the text of the chosen columns of each record. Raises UserError for absent columns and for values that are no text."""
    names: tuple[str, ...] | None = None
    for number, record in enumerate(records, 1):
        if names is None:
            nested = [f"{name}.{key}" for name, value in record.items() if isinstance(value, Mapping) for key in value]
            known = [name for name, value in record.items() if not isinstance(value, Mapping)] + nested
            names = columns.choose(known) or _no_columns(where, columns, known)
        values = tuple(_value(record, name) for name in names)
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, str) or not value.encode("utf-8", "ignore").decode() == value:
                raise UserError(f"{where}: {unit} {number}: column {name}: found {_shown(value)}; expected text")
        yield values


def one_line(text: str) -> str:
    """The text without line ends and NUL, since a line of a corpus is a sentence."""
    return " ".join(text.replace("\0", " ").splitlines())


def _value(record: Mapping[str, Any], name: str) -> Any:
    if name in record:
        return record[name]
    outer, _, key = name.partition(".")
    inner = record.get(outer)
    return inner.get(key) if isinstance(inner, Mapping) else None


def _shown(value: Any) -> str:
    return "null" if value is None else f"{type(value).__name__} {shown(str(value), 30)}"


def _no_columns(where: str, columns: Columns, known: Sequence[str]) -> Any:
    found = ", ".join(shown(name, 30) for name in known[:10]) or "none"
    expected = ", ".join(columns.names or columns.languages)
    raise UserError(f"{where}: found the columns {found}; expected {expected}" + ("" if columns.names else ", or name yours by --columns"))


def _tsv(path: Path, columns: Columns) -> Iterator[Row]:
    lines = iter_lines(path)
    first = next(lines, "")
    header = first.split("\t")
    names = columns.names
    numbered = all(re.fullmatch("[1-9][0-9]{0,5}", name) for name in names)
    if (chosen := columns.choose(header)) is not None and not (names and numbered):
        wanted, start = [header.index(name) for name in chosen], 2
    elif not names and len(header) == 2 and all(map(_HEADING.fullmatch, header)):
        found = " and ".join(shown(name, 30) for name in header)
        raise UserError(f"{path}: found {found} in the first line; expected text, names of columns by --columns, or --columns 1,2 for text")
    elif numbered and (names or len(header) == 2):
        wanted, start = [int(name) - 1 for name in names] or [0, 1], 1
        lines = itertools.chain([first], lines)
    else:
        _no_columns(str(path), columns, header)
    number, quoted = 0, set(wanted)
    for number, line in enumerate(lines, start):
        fields = line.split("\t")
        if len(fields) != len(header) or len(fields) <= max(wanted):
            expected = max(len(header), max(wanted) + 1)
            raise UserError(f"{path}: line {number}: found {len(fields)} columns ({shown(line, 40)}); expected {expected}")
        quoted = {i for i in quoted if fields[i][:1] == fields[i][-1:] == '"'}
        yield tuple(fields[i] for i in wanted)
    if number and quoted:
        log(f"warning: {path}: every line of column {min(quoted) + 1} is in quotes, as in CSV; they stay part of the text")


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(iter_lines(path), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: line {number}: no JSON: {error}") from None
        if not isinstance(record, dict):
            raise UserError(f"{path}: line {number}: found {_shown(record)}; expected an object, one a line")
        yield record


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(10_000):
                yield from batch.to_pylist()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: damaged Parquet file: {' '.join(str(error).split())[:200]}") from None


def _tmx(path: Path, columns: Columns) -> Iterator[Row]:
    """The units of a translation memory that have both languages. Expat itself refuses entities that expand without bound."""
    languages, number, body = set[str](), 0, None
    with open_text(path) as file:
        try:
            for event, element in ElementTree.iterparse(file, ("start", "end")):
                if event == "start":
                    body = element if element.tag == "body" else body
                elif element.tag == "tu" and body is not None:
                    unit = dict[str, str]()
                    for variant in element.iter("tuv"):
                        language = (variant.get(_LANGUAGE) or variant.get("lang") or "").lower()
                        languages.add(language)
                        unit[language] = " ".join(_segment(variant.find("seg")).split())
                    src, tgt = (_variant(unit, code.lower()) for code in columns.languages)
                    body.clear()
                    if src is not None and tgt is not None:
                        number += 1
                        yield src, tgt
        except ElementTree.ParseError as error:
            raise UserError(f"{path}: line {error.position[0]}: no XML: {str(error).partition(':')[0]}") from None
        except (ValueError, LookupError) as error:  # of expat, for other encodings
            raise UserError(f"{path}: {error}; expected UTF-8 or UTF-16") from None
    if not number:
        found = ", ".join(sorted(languages)) or "none"
        raise UserError(f"{path}: found the languages {found}; expected units with {' and '.join(columns.languages)}")


def _variant(unit: Mapping[str, str], code: str) -> str | None:
    """The text in this language; a code without a region takes any region, one with a region takes text that names none."""
    primary = primary_subtag(code)
    regions = (language for language in unit if code == primary and primary_subtag(language) == primary)
    return next((unit[name] for name in (code, *regions, primary) if name in unit), None)


def _segment(element: Any) -> str:
    """The text of an element without markup of another format."""
    if element is None:
        return ""
    parts = (("" if inner.tag in _CODES else _segment(inner)) + (inner.tail or "") for inner in element)
    return (element.text or "") + "".join(parts)
