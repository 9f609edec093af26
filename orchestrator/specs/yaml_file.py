"""Strict YAML reader that records the position of each key.

Stricter than PyYAML: no tags, anchors, aliases, duplicate keys or leading zeros. Scalars follow the YAML 1.2 core schema (`1e-4` is a
number, `no` and `12:30` are strings). Keys are always strings.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.resolver import Resolver

from orchestrator.errors import UserError
from orchestrator.files.folders import no_file
from orchestrator.specs.positions import Document, KeyPath, Position, describe, display, dotted, shown

MAX_BYTES = 1_000_000
MAX_DEPTH = 40

_WORDS = dict.fromkeys(("~", "null", "Null", "NULL", ""))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_SPECIAL = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}
_NUMBER = re.compile(
    r"(?P<zeros>[-+]?0[0-9]+)|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)|(?P<float>[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LENIENT = re.compile("[\t?\ufeff]")
"""Characters that libyaml takes in more places than PyYAML's own parser."""


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
    for reader in (_Reader,) if _LENIENT.search(text) else (_FastReader, _Reader):
        document, problems = Document(name, None), list[tuple[int, str]]()
        try:
            reading = reader(text, document, problems)
            node = reading.get_single_node()
            document.data = None if node is None else reading.build(node, (), 0)
        except yaml.reader.ReaderError as error:
            code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
            problems = [(text.count("\n", 0, error.position) + 1, f"found the character U+{code:04X}; expected printable text")]
        except yaml.MarkedYAMLError as error:
            position = error.problem_mark or error.context_mark
            line = position.line + 1 if position else 1
            problems.append((line, _syntax(error, text, line)))
        except (RecursionError, yaml.YAMLError, ValueError, OverflowError):
            problems = [(1, "cannot be read as YAML: nested too deeply or malformed")]
        if not problems:
            return document
    raise UserError(*dict.fromkeys(f"{name}:{line}: {message}" for line, message in sorted(problems)))


class _Reader(yaml.SafeLoader):
    """Reads nodes as plain data. Problems are (line, message); anchors, aliases and tags are among them."""

    def __init__(self, text: str, document: Document, problems: list[tuple[int, str]]) -> None:
        super().__init__(text)
        self.document, self.problems = document, problems

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

    def wrong(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.problems.append((node.start_mark.line + 1, f"{dotted(path) or 'top level'}: {message}"))

    def build(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        """Returns the plain data of a node, and adds the position of each of its keys and items to the document."""
        where = f"{self.document.file}:{node.start_mark.line + 1}"
        self.document.positions.setdefault(path, Position(where, path))
        if depth > MAX_DEPTH:
            self.problems.append((node.start_mark.line + 1, f"found more than {MAX_DEPTH} levels of nesting"))
            return None
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = key.value, key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.wrong(key, path, "found a list or mapping as a key; expected a name")
            elif not name or _SURROGATE.search(name):
                self.wrong(key, path, "found an empty or malformed key; expected a name")
            elif name in lines:
                self.wrong(key, (*path, name), f"found the key twice; expected once: first at line {lines[name]}")
            else:
                lines[name] = line
                self.document.positions[(*path, name)] = Position(f"{self.document.file}:{line}", (*path, name))
                data[name] = self.build(value, (*path, name), depth + 1)
        return data

    def scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        text = node.value
        number = _NUMBER.fullmatch(text) if not node.style else None
        if _SURROGATE.search(text):
            self.wrong(node, path, "found half of a surrogate pair; expected text")
        elif not node.style and text in _WORDS:
            return _WORDS[text]
        elif not node.style and text.lower() in _SPECIAL:
            return float(_SPECIAL[text.lower()])
        elif number is None:
            return text
        elif number["zeros"]:
            self.wrong(node, path, f"found {shown(text)}; expected a number without leading zeros, or quotes around text")
        elif number["float"]:
            return float(text)
        elif len(text) > 300:
            self.wrong(node, path, f"found {shown(text, 30)}; expected a number of at most 300 characters")
        else:
            return int(text, 0) if len(text) <= 18 else float(int(text, 0))  # a schema refuses it where it expects a whole number
        return None


_Reader.yaml_implicit_resolvers = {}  # plain scalars stay text, which `scalar` interprets


class _FastReader(_Reader, CParser):
    """By libyaml's parser, several times as fast: the same data, but other words where the text is malformed."""

    peek_event, check_event, get_event = CParser.peek_event, CParser.check_event, CParser.get_event

    def __init__(self, text: str, document: Document, problems: list[tuple[int, str]]) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self.document, self.problems = document, problems


def _read(file: Path, name: str) -> str:
    if (reason := no_file(file)) is not None:
        raise UserError(f"{name}: {reason}")
    try:
        size = file.stat().st_size
        raw = b"" if size > MAX_BYTES else file.read_bytes()
    except (FileNotFoundError, ValueError):
        raise UserError(f"{shown(name, 200)}: no such file") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    if size > MAX_BYTES:
        raise UserError(f"{name}: found {size} bytes; expected at most {MAX_BYTES}")
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
