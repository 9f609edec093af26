"""Spec files in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MINIMAL = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 4, validate_every: 2, checkpoint_every: 2}
rows:
"""


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file: the minimal head, then `rows` (indented by two), or a whole `text`."""

    def write(rows: str = "  base: {}\n", *, text: str | None = None, name: str = "spec.yaml", head: str = MINIMAL) -> Path:
        path = tmp_path / name
        path.write_bytes((head + rows if text is None else text).encode("utf-8"))
        return path

    return write
