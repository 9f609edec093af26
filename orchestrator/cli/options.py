"""Options that commands share, and how they print. typer is all that is imported at module level."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.files.folders import need_folder as need_folder
from orchestrator.files.folders import parser
from orchestrator.ledger import mirrored
from orchestrator.ledger.bucket import attach
from orchestrator.safe_text import json_text
from orchestrator.safe_text import say as note

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.ledger.results import Ledger

Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the spec; may be repeated.")]
Profile = Annotated[str | None, typer.Option("--profile", help="Scale the rows: smoke, cpu or gpu. Default: as published.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**32 - 1, help="Random seed (default 1).")]
Seeds = Annotated[str | None, typer.Option("--seeds", metavar="1,2,..", help="Seeds; default: those of the file's sweep section.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="NMT_DATA_DIR", parser=parser("--data-dir"), help="Where the corpora lie."),
]
CacheDir = Annotated[
    Path,
    typer.Option("--cache-dir", envvar="NMT_CACHE_DIR", parser=parser("--cache-dir"), help="Where prepared corpora are kept."),
]
Results = Annotated[
    Path,
    typer.Option(
        "--results", envvar="NMT_RESULTS", parser=attach.place, metavar="DIR|URL", help="The ledger: a folder, or s3://bucket/prefix."
    ),
]
NoTracking = Annotated[bool, typer.Option("--no-tracking", help="Write nothing to MLflow now; `reconcile` brings runs later.")]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        envvar="MLFLOW_TRACKING_URI",
        metavar="URI",
        help="MLflow server (http://HOST:PORT) or database (postgresql://..). Default: a file among the results. "
        "Login: MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD.",
    ),
]
TrackingCanWait = Annotated[
    bool, typer.Option("--tracking-can-wait", help="Start though the tracking server cannot be written now; what it misses follows.")
]
Export = Annotated[
    Path | None,
    typer.Option("--export", parser=parser("--export"), help="Copy the JSON that tables read there, e.g. docs/results/ledger."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else; human text goes to stderr.")]
MaxHours = Annotated[
    float | None,
    typer.Option(
        "--max-gpu-hours",
        "--max-core-hours",
        help="Device-hours that the sweep may use, earlier calls included: of GPUs, or of CPU cores where it runs on CPUs.",
    ),
]

RESULTS = Path("results")
CACHE = Path(".data-cache")


def version() -> str:
    """Of the installed distribution, or of the source tree."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("nmt-layer-fusion")
    except PackageNotFoundError:
        return "0 (not installed)"


def console(*, stderr: bool = False) -> Console:
    """Without a terminal, lines are wide enough for tables."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 140)


def emit(value: Any) -> None:
    """One compact line of JSON on stdout."""
    sys.stdout.write(json_text(value, separators=(",", ":"), default=str) + "\n")
    sys.stdout.flush()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Whatever libraries and their processes print on stdout goes to stderr: stdout is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def until_a_cap() -> Iterator[None]:
    """A sweep that meets its cap on device-hours ends the command as one that was stopped, and says so."""
    from orchestrator.sweeps.cap import CapError

    try:
        yield
    except CapError as reached:
        note(str(reached))
        raise typer.Exit(130) from None


def ledger(results: Path) -> Ledger:
    """The ledger with the published results behind it."""
    from orchestrator.ledger.results import Ledger

    return Ledger(results, mirrors())


def mirrors() -> list[Path]:
    from orchestrator.paths import PUBLISHED_LEDGER

    return [PUBLISHED_LEDGER] if PUBLISHED_LEDGER.is_dir() else []


def given(profile: str | None, sets: list[str] | None, results: Path) -> str:
    """` --profile smoke --results DIR`: what a row needs on a command line to be the same row, in the same ledger."""
    words = ["--profile", profile] if profile else []
    words += [word for text in sets or [] for word in ("--set", text)]
    words += [] if results == RESULTS else ["--results", mirrored.shown(results)]
    return "".join(f" {shlex.quote(word)}" for word in words)
