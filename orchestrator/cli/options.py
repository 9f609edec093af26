"""Declarations of the options that commands share. It imports only light modules, because `--help` loads it."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from typer import Option
from typer.core import TyperCommand

from orchestrator.errors import UserError
from orchestrator.files.folders import checked
from orchestrator.ledger.bucket import attach
from orchestrator.paths import profile_names


def folder(name: str, text: str, variable: str | None = None) -> Any:
    """Returns an option whose value is a folder."""
    return Option(name, envvar=variable, parser=lambda value: checked(value, name), help=text)


Sets = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override a key of the spec; may be repeated.")]
Profile = Annotated[str | None, Option("--profile", metavar="NAME|FILE.yaml", help=f"Scale: {', '.join(profile_names())}, or a file.")]
Seed = Annotated[int | None, Option("--seed", min=0, max=2**32 - 1, help="Random seed (default 1).")]
Seeds = Annotated[str | None, Option("--seeds", metavar="1,4-6,..", help="Seeds; default: those of the file (with --tune: seeds.judge).")]
DataDir = Annotated[Path | None, folder("--data-dir", "Folder of the corpora.", "NMT_DATA_DIR")]
CacheDir = Annotated[Path, folder("--cache-dir", "Folder of the prepared corpora.", "NMT_CACHE_DIR")]
LEDGER = "The ledger: a folder, or s3://bucket/prefix."
Results = Annotated[Path, Option("--results", envvar="NMT_RESULTS", parser=attach.place, metavar="DIR|URL", help=LEDGER)]
NoTracking = Annotated[bool, Option("--no-tracking", help="Write nothing to MLflow now; `reconcile` adds the runs later.")]
URI = "MLflow server (http://HOST:PORT) or database (postgresql://..). Default: a file in the results folder. Login: \
MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD."
TrackingUri = Annotated[str | None, Option("--tracking-uri", envvar="MLFLOW_TRACKING_URI", metavar="URI", help=URI)]
MATCHED = "Matched controls in place of the file's: the baseline with a variant's parameters or operations. Empty: none."
Controls = Annotated[str | None, Option("--controls", metavar="params,flops", help=MATCHED)]
AsJson = Annotated[bool, Option("--json", help="Print JSON only on stdout; messages go to stderr.")]
Baseline = Annotated[str | None, Option("--baseline", metavar="ROW", help="Compare with this row; default: the row's own start.")]

SHARED: dict[str, Any] = {
    "profile": Profile,
    "sets": Sets,
    "data_dir": DataDir,
    "results": Results,
    "cache_dir": CacheDir,
    "engine": Annotated[
        str, Option("--engine", help="local: on this machine (see --jobs); ray: Ray Tune and Train; auto: what the rows need.")
    ],
    "jobs": Annotated[str, Option("--jobs", metavar="N|auto", help="Processes of the local engine; auto: as many as fit; 1: in this one.")],
    "workers": Annotated[int | None, Option("--workers", min=1, max=1024, help="Workers of each run; 2 or more need --engine ray.")],
    "no_tracking": NoTracking,
    "tracking_uri": TrackingUri,
    "resources": Annotated[str | None, Option("--resources", metavar="gpu=auto,memory=12G", help="Of each worker, over the file's.")],
    "as_json": AsJson,
}
"""Field of `RowOptions` or `ExecutionOptions` -> its option on the command line."""
SOME: dict[str, Any] = {
    "controls": Controls,
    "max_hours": Annotated[float | None, Option("--max-gpu-hours", "--max-core-hours", help="Cap on the sweep's device-hours.")],
    "until_decided": Annotated[bool, Option("--until-decided", help="3 seeds, then all seeds of undecided rows. Needs a cap on hours.")],
    "tune": Annotated[bool, Option("--tune", help="Search every row by the section `tune`, then judge each row's best configuration.")],
    "tune_with": Annotated[Path | None, Option("--tune-with", metavar="FILE.yaml", help="Tuned by the section `tune` of this file.")],
    "ladder": Annotated[str | None, Option("--ladder", metavar="NAME,NAME,..|file", help="At several sizes: profiles, smallest first.")],
}
"""The same for fields that only some commands accept. Commands set the other fields themselves."""


def expand_options(*some: str, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces a command's parameter `options`, a dataclass, by one option for each of its fields in SHARED.

    some: Fields of SOME that this command also accepts.
    defaults: Fields whose default differs for this command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        options = signature.parameters["options"].annotation
        known = SHARED | {name: SOME[name] for name in some}
        own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
        shared = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(field.name, field.default), annotation=known[field.name]
            )
            for field in fields(options)
            if field.name in known
        ]

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            given = {parameter.name: values.pop(parameter.name) for parameter in shared}
            command(**values, options=options(**given))

        parameters = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
        wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return wrapper

    return decorate


class OnceEach(TyperCommand):
    """Refuses an option with one value that is given twice: only the last value would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        order: list[Any] = self.make_parser(ctx).parse_args(list(args))[2]
        for option in (param for param in order if order.count(param) > 1 and not (param.multiple or param.is_flag)):
            raise UserError(f"{option.opts[0]}: found twice; expected one value")
        return super().parse_args(ctx, args)


class Values(tuple[str, ...]):
    """The values of one use of an option of `ManyValues`."""

    @classmethod
    def parse(cls, text: str) -> "Values":
        return cls(text.split("\0"))


class ManyValues(OnceEach):
    """Lets an option whose metavar ends in `..` take all values up to the next option. click cannot, so NUL joins them to one value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        greedy = {name for param in self.params if str(param.metavar).endswith("..") for name in param.opts if name.startswith("--")}
        joined: list[str] = []
        for value in args:
            if len(joined) > 1 and joined[-2] in greedy and not value.startswith("--"):
                joined[-1] += f"\0{value}"
            else:
                joined.append(value)
        values, _, last = joined[-1].rpartition("\0") if joined else ("", "", "")
        arguments = [param.name for param in self.params if param.param_type_name == "argument"]
        if values and None in map(self.make_parser(ctx).parse_args(list(joined))[0].get, arguments) and not Path(last).exists():
            joined[-1:] = [values, last]  # the last value after an option is the argument
        return super().parse_args(ctx, joined)
