"""Decodes UTF-8 text to lines, and reports errors with their positions."""

from pathlib import Path

from orchestrator.errors import UserError


def decoded(path: Path | str, whole: bytes, done: int) -> list[str]:
    """The lines of a block that ends before a line's end; the block starts after `done` lines. UserError: it is not UTF-8, or has a NUL."""
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError as error:
        number, start = whole.count(b"\n", 0, error.start), whole.rfind(b"\n", 0, error.start) + 1
        where = f"byte 0x{whole[error.start]:02x} at offset {error.start - start} of the line"
        raise UserError(f"{path}: line {done + number + 1} is not UTF-8: {where}") from None
    if (nul := text.find("\0")) >= 0:
        raise UserError(f"{path}: line {done + text.count(chr(10), 0, nul) + 1} has a NUL character")
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines
