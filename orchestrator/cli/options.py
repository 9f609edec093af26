"""Declarations of the options that commands share. Of other packages only light modules are imported: `--help` loads this one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.files.folders import parser
from orchestrator.ledger.bucket import attach

Sets = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the spec; may be repeated.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", help="Scale of the rows: smoke, mini, gpu or a file of your own. Default: as published.", metavar="NAME|FILE.yaml"
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**32 - 1, help="Random seed (default 1).")]
Seeds = Annotated[str | None, typer.Option("--seeds", metavar="1,2,..", help="Seeds; default: those of the file's sweep section.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="NMT_DATA_DIR", parser=parser("--data-dir"), help="Folder of the corpora."),
]
CacheDir = Annotated[
    Path,
    typer.Option("--cache-dir", envvar="NMT_CACHE_DIR", parser=parser("--cache-dir"), help="Folder of the prepared corpora."),
]
Results = Annotated[
    Path,
    typer.Option(
        "--results", envvar="NMT_RESULTS", parser=attach.place, metavar="DIR|URL", help="The ledger: a folder, or s3://bucket/prefix."
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="local: on this machine (see --jobs); ray: Ray Tune and Ray Train.")]
Jobs = Annotated[
    str,
    typer.Option(
        "--jobs",
        metavar="N|auto",
        help="Runs side by side with --engine local, each in a process of its own; auto: as many as cores or the GPU's memory hold. "
        "1: one after the other in this process.",
    ),
]
Workers = Annotated[int | None, typer.Option("--workers", min=1, max=1024, help="Workers of each run (more than 1 needs --engine ray).")]
Resources = Annotated[
    str | None,
    typer.Option(
        "--resources",
        metavar="gpu=auto,memory=12G",
        help="Overrides the file's sweep.resources: gpu and memory of each worker.",
    ),
]
NoTracking = Annotated[bool, typer.Option("--no-tracking", help="Write nothing to MLflow now; `reconcile` adds the runs later.")]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        envvar="MLFLOW_TRACKING_URI",
        metavar="URI",
        help="MLflow server (http://HOST:PORT) or database (postgresql://..). Default: a file in the results folder. "
        "Login: MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD.",
    ),
]
TrackingCanWait = Annotated[
    bool,
    typer.Option("--tracking-can-wait", help="Start even if the tracking server cannot be written; missing runs are added later."),
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        parser=parser("--export"),
        help="Copy the JSON that tables read to this folder, e.g. docs/results/ledger, with the translations of each row's first seed.",
    ),
]
Controls = Annotated[
    str | None,
    typer.Option(
        "--controls",
        metavar="params,flops",
        help="Matched controls of each variant, in place of those in the file: its baseline with the variant's parameters, or trained for "
        "its operations. Empty: none.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only on stdout; messages go to stderr.")]
MaxHours = Annotated[
    float | None,
    typer.Option(
        "--max-gpu-hours",
        "--max-core-hours",
        help="Device-hours that the sweep may use, earlier calls included: of GPUs, or of CPU cores where it runs on CPUs.",
    ),
]

SHARED: dict[str, Any] = {
    "profile": Profile,
    "sets": Sets,
    "data_dir": DataDir,
    "results": Results,
    "cache_dir": CacheDir,
    "engine": Engine,
    "jobs": Jobs,
    "workers": Workers,
    "export": Export,
    "no_tracking": NoTracking,
    "tracking_uri": TrackingUri,
    "tracking_can_wait": TrackingCanWait,
    "resources": Resources,
    "as_json": AsJson,
}
"""Field of `RowOptions` or `ExecutionOptions` -> its option on the command line. Other fields are set by the commands."""


def expand_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces a command's parameter `options`, a dataclass, by one option for each of its fields in SHARED.

    Args:
        defaults: Fields whose default differs for this command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        options = signature.parameters["options"].annotation
        shared = [field for field in fields(options) if field.name in SHARED]
        parameters = [parameter for name, parameter in signature.parameters.items() if name != "options"]
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(field.name, field.default),
                annotation=SHARED[field.name],
            )
            for field in shared
        ]

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            given = {field.name: values.pop(field.name) for field in shared}
            command(**values, options=options(**given))

        wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return wrapper

    return decorate
