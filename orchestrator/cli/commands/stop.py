"""`stop`."""

from __future__ import annotations

from pathlib import Path

import typer

from orchestrator.cli.output import print_json
from orchestrator.files.folders import need_folder
from orchestrator.lifecycle import stopping
from orchestrator.safe_text import log
from orchestrator.sweeps.names import as_address


def stop(results: Path, name: str | None, *, every: bool, now: bool, timeout: float, as_json: bool) -> None:
    need_folder(results, "--results")
    sweeps = stopping.stop(results, None if name is None else as_address(name), every=every, now=now, timeout=timeout)
    if as_json:
        print_json({"results": str(results), "stopped": [sweep.as_json() for sweep in sweeps]})
    for sweep in sweeps:
        for line in sweep.lines():
            log(line)
    if not sweeps:
        log(f"nothing runs in {results}")
    if timeout > 0 and any(sweep.action == "stopping" for sweep in sweeps):
        raise typer.Exit(1)
