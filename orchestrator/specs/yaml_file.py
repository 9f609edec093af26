"""Strict YAML reader that records the position of each key.

Stricter than PyYAML: no tags, anchors, aliases, duplicate keys or leading zeros. Scalars follow the YAML 1.2 core schema (`1e-4` is a
number, `no` and `12:30` are strings). Keys are always strings.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.specs.positions import Document, KeyPath, Position, describe, display, dotted, shown

MAX_BYTES = 1_000_000
MAX_DEPTH = 40

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}
_ZEROS = re.compile(r"[-+]?0[0-9]+")


def load(file: Path) -> Document:
    """Reads a file whose top level is a mapping. Raises UserError with every problem found in one pass."""
    name = display(file)
    document = parse(_read(file, name), name)
    if document.data is None:
        raise UserError(f"{name}:1: the file is empty; expected a mapping, as in search_spaces/quickstart.yaml")
    if not isinstance(document.data, dict):
        raise UserError(f"{name}:1: found {describe(document.data)} at the top level; expected a mapping")
    return document


def parse(text: str, name: str) -> Document:
    """Parses YAML text; `name` is the file name in messages. Empty text gives a document whose data is None. Raises UserError."""
    problems: list[tuple[int, str]] = []
    try:
        loader = _Loader(text, problems)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
        raise UserError(f"{name}:{line}: found the character U+{code:04X}; expected printable text") from None
    except yaml.MarkedYAMLError as error:
        position = error.problem_mark or error.context_mark
        line = position.line + 1 if position else 1
        lines = [f"{name}:{n}: {message}" for n, message in problems]
        raise UserError(*lines, f"{name}:{line}: {_syntax(error, text, line)}") from None
    except (RecursionError, yaml.YAMLError, ValueError, OverflowError):
        raise UserError(f"{name}:1: cannot be read as YAML: nested too deeply or malformed") from None
    document = Document(name, None)
    if node is not None:
        document.data = _build(node, (), document, problems, 0)
    if problems:
        raise UserError(*dict.fromkeys(f"{name}:{line}: {message}" for line, message in sorted(problems)))
    return document


class _Loader(yaml.SafeLoader):
    """Composes nodes, and reports anchors, aliases and tags as problems."""

    def __init__(self, text: str, problems: list[tuple[int, str]]) -> None:
        super().__init__(text)
        self.problems = problems

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if self.check_event(yaml.AliasEvent):
            self.get_event()
            self.problems.append((line, f"found the alias *{shown(str(event.anchor))}; expected the value itself: aliases are not allowed"))
            return yaml.ScalarNode("tag:yaml.org,2002:null", "", event.start_mark, event.end_mark)
        if event.anchor is not None:
            self.problems.append((line, f"found the anchor &{shown(str(event.anchor))}; expected none: anchors are not allowed"))
            event.anchor = None
        if event.tag is not None:
            self.problems.append((line, f"found the tag {shown(str(event.tag))}; expected plain data: tags are not allowed"))
            event.tag = None
            if isinstance(event, yaml.ScalarEvent):
                event.implicit = (False, True)
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {}  # plain scalars stay text, which _scalar interprets


def _read(file: Path, name: str) -> str:
    try:
        info = file.stat()
    except (OSError, ValueError):
        raise UserError(f"{shown(name, 200)}: no such file") from None
    if not stat.S_ISREG(info.st_mode):
        kind = "a directory" if stat.S_ISDIR(info.st_mode) else "a special file"
        raise UserError(f"{name}: found {kind}; expected a regular file")
    if info.st_size > MAX_BYTES:
        raise UserError(f"{name}: found {info.st_size} bytes; expected at most {MAX_BYTES}")
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{name}:{line}: found byte 0x{raw[error.start]:02x} at offset {error.start}; expected UTF-8") from None


def _syntax(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    lines = text.split("\n")
    problem = shown(str(error.problem or "malformed"), 120)
    if "\\t" in problem or (line <= len(lines) and "\t" in lines[line - 1]):
        return "found a tab; expected spaces"
    if "single document" in str(error.context or "") or "another document" in problem:
        return "found a second document (---); expected one"
    return f"not YAML: {problem}"


def _build(node: yaml.Node, path: KeyPath, document: Document, problems: list[tuple[int, str]], depth: int) -> Any:
    line = node.start_mark.line + 1
    document.positions.setdefault(path, Position(f"{document.file}:{line}", path))
    if depth > MAX_DEPTH:
        problems.append((line, f"found more than {MAX_DEPTH} levels of nesting"))
        return None
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, path, problems)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), document, problems, depth + 1) for i, item in enumerate(node.value)]
    first: dict[str, int] = {}
    data: dict[str, Any] = {}
    for key, key_line, value in _items(node, path, problems):
        if key in first:
            problems.append((key_line, f"{dotted((*path, key))}: found the key twice; expected once: first at line {first[key]}"))
            continue
        first[key] = key_line
        document.positions[(*path, key)] = Position(f"{document.file}:{key_line}", (*path, key))
        data[key] = _build(value, (*path, key), document, problems, depth + 1)
    return data


def _items(node: yaml.Node, path: KeyPath, problems: list[tuple[int, str]]) -> Iterator[tuple[str, int, yaml.Node]]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            problems.append((line, f"{dotted(path) or 'top level'}: found a list or mapping as a key; expected a name"))
        elif not key.value or any("\ud800" <= c <= "\udfff" for c in key.value):
            problems.append((line, f"{dotted(path) or 'top level'}: found an empty or malformed key; expected a name"))
        else:
            yield key.value, line, value


def _scalar(node: yaml.ScalarNode, path: KeyPath, problems: list[tuple[int, str]]) -> Any:
    text, line = node.value, node.start_mark.line + 1
    if any("\ud800" <= c <= "\udfff" for c in text):
        problems.append((line, f"{dotted(path)}: found half of a surrogate pair; expected text"))
        return None
    if node.style is not None:
        return text
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _ZEROS.fullmatch(text):
        problems.append((line, f"{dotted(path)}: found {shown(text)}; expected a number without leading zeros, or quotes around text"))
        return None
    if _INT.fullmatch(text) or _BASED.fullmatch(text):
        if len(text) > 18:
            problems.append((line, f"{dotted(path)}: found {shown(text, 30)}; expected a number of at most 18 characters"))
            return None
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if text.lower() in _SPECIAL:
        return float(_SPECIAL[text.lower()])
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
