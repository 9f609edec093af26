"""Reads corpora in CSV files, plain or gzipped, with source and reference in two columns of one file."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from orchestrator.data.corpus import open_text
from orchestrator.errors import UserError

MAX_FIELD = 10_000_000  # characters


def rows(path: Path, columns: tuple[str, str], records: tuple[int, int] | None = None) -> Iterator[tuple[str, str]]:
    """Yields (source, reference) of each record, or of records `records[0]` .. `records[1]` - 1, counted from 0 without the header.

    Raises UserError for missing columns, a record without them, text that is not UTF-8, and fewer records than `records` needs.
    """
    csv.field_size_limit(MAX_FIELD)
    start, stop = records or (0, None)
    number = 0
    try:
        with open_text(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            if lacking := [name for name in columns if name not in found]:
                raise UserError(
                    f"{path}: no column {lacking[0]!r}; its columns are {', '.join(name[:40] for name in found[:10]) or 'none'}"
                )
            for number, record in enumerate(islice(reader, start, stop), 1):
                source, reference = (record[name] for name in columns)
                if source is None or reference is None:
                    raise UserError(f"{path}: record {start + number} (it ends in line {reader.line_num}) lacks columns of the header")
                yield source, reference
    except UnicodeDecodeError:
        raise UserError(f"{path}: record {start + number + 1} or soon after is not UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: record {start + number + 1}: {error}") from None
    except (EOFError, zlib.error, OSError) as error:
        raise UserError(f"{path}: cannot be read after record {start + number}: {error}") from None
    if stop is not None and number < stop - start:
        raise UserError(f"{path}: {start + number:,} records; expected at least {stop:,}")
