"""Reads plain or compressed text (gzip, bzip2, xz, zstd) with one sentence per line, and reports errors with their positions.

Lines end at `\\n` and nowhere else (never at U+2028, U+0085 or form feeds); a `\\r` before it is dropped, and so is
a byte order mark at the start of the text. Compression is recognised by content.
"""

import bz2
import contextlib
import gzip
import hashlib
import io
import itertools
import lzma
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from orchestrator.data.lines import decoded
from orchestrator.errors import UserError
from orchestrator.files.folders import no_file

MAX_LINE_BYTES = 1_000_000
_MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00", "zstd": b"\x28\xb5\x2f\xfd"}
"""Compression -> the first bytes of its files."""


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """Context: the uncompressed text after its byte order mark as a binary stream.

    Raises UserError if `path` cannot be read, is no file (a FIFO would block) or holds damaged compressed data.
    """
    if (reason := no_file(path)) is not None:
        raise UserError(f"{path}: {reason}")
    packed = None
    try:
        with path.open("rb") as file:
            head = file.read(6)
        packed = next((kind for kind, magic in _MAGIC.items() if head.startswith(magic)), None)
        with _uncompressed(path, packed) as text:
            text.read(len(BOM_UTF8) * text.peek(len(BOM_UTF8)).startswith(BOM_UTF8))
            yield cast(IO[bytes], text)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise UserError(f"{path}: damaged {packed} data: {error}") from None
    except OSError as error:
        fault = f"damaged {packed} data" if packed and error.errno is None else "cannot be read"
        raise UserError(f"{path}: {fault}: {error.strerror or error}") from None


def _uncompressed(path: Path, packed: str | None) -> Any:
    if packed == "zstd":
        import pyarrow

        return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd"), 1 << 17)
    opened: dict[str | None, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    return opened.get(packed, open)(path, "rb")


def iter_lines(path: Path) -> Iterator[str]:
    """Yields the lines without their end.

    Raises UserError like `open_text`, for a line over MAX_LINE_BYTES, for lines that end in CR alone, and at the first line that is not
    UTF-8 or has a NUL, with its number and the offset of the byte.
    """
    done = 0
    with open_text(path) as file:
        while block := file.read(min(1 << 16, MAX_LINE_BYTES)) + file.readline(MAX_LINE_BYTES + 1):
            whole = block.removesuffix(b"\n")
            if not done and b"\r" in whole[:-1] and b"\n" not in block:
                raise UserError(f"{path}: lines end in CR alone; expected LF or CR LF (convert with: tr '\\r' '\\n')")
            if len(whole) - (whole.rfind(b"\n") + 1) > MAX_LINE_BYTES:
                number = done + whole.count(b"\n") + 1
                raise UserError(f"{path}: line {number} is longer than {MAX_LINE_BYTES:,} bytes; one sentence a line is expected")
            lines = decoded(path, whole, done)
            yield from lines
            done += len(lines)


def read_lines(path: Path) -> list[str]:
    """All lines of a file. Raises UserError like `iter_lines`."""
    return list(iter_lines(path))


def content_of(path: Path) -> tuple[str, int]:
    """sha256 of the uncompressed bytes after the byte order mark, and the number of lines that `iter_lines` yields."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with open_text(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            lines, last = lines + block.count(b"\n"), block[-1:]
    return digest.hexdigest(), lines + (last != b"\n")


def parallel(paths: list[Path]) -> Iterator[tuple[str, ...]]:
    """Yields the lines of several files in parallel. Raises UserError at the end of the shortest if their numbers of lines differ."""
    streams = [iter_lines(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*streams), 1):
        if None in row:
            counts = [number - (line is None) + sum(1 for _ in stream) for line, stream in zip(row, streams, strict=True)]
            found = ", ".join(f"{path} has {count:,} lines" for path, count in zip(paths, counts, strict=True))
            raise UserError(f"{found}; a line and its translation must have the same number")
        yield row
