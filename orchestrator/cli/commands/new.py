"""`new`: a table to start from."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from orchestrator.data import starter
from orchestrator.files.folders import need_folder
from orchestrator.safe_text import log, visible
from orchestrator.specs.positions import display


def new(address: str, corpus: str, data_dir: Path | None) -> None:
    need_folder(data_dir, "--data-dir")
    path = starter.write(address, corpus, data_dir)
    typer.echo(visible(display(path)))
    given = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    log(f"next: nmt-ablate sweep {address} --engine local{given}")
