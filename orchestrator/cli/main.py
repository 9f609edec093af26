"""`nmt-ablate`: the commands, and the exit codes of errors.

Exit codes: 0 done, 1 a row failed or diverged (or an unexpected error), 2 bad input, 3 locked by another process,
4 no such combination in the grid (`explain`), 130 interrupted.

The modules of `cli` declare arguments and options, and import nothing heavy, so that `--help` is fast. Each command imports its
implementation from `cli.commands` when it is called.
"""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import data, lifecycle, report, results, specs
from orchestrator.cli import run as execution
from orchestrator.cli.help import GroupedHelp, OnceCommand
from orchestrator.cli.limits import exceeded, open_streams
from orchestrator.cli.output import version
from orchestrator.errors import Detached, FencedError, LockedError, RemoteError, UserError
from orchestrator.paths import ROOT
from orchestrator.safe_text import LOGGED, log
from orchestrator.specs.positions import shown

app = typer.Typer(
    name="nmt-ablate",
    cls=GroupedHelp,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Ablations of layer fusion in neural machine translation: rows of papers as YAML, trained, scored and compared.\n\n"
    "Example:  nmt-ablate run quickstart/fusion/baseline --profile smoke",
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"nmt-ablate {version()}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Keep the traceback of unforeseen errors.")] = False,
    show_version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options before the command."""


COMMANDS: dict[str, Callable[..., None]] = {
    "run": execution.run,
    "sweep": execution.sweep,
    "noise": execution.noise,
    "plan": specs.plan,
    "new": specs.new,
    "show": specs.show,
    "list": specs.list_rows,
    "explain": specs.explain,
    "ablate": specs.ablate,
    "analyse": report.analyse,
    "table": report.table,
    "report": report.report,
    "verdict": report.verdict,
    "describe": specs.describe,
    "schema": specs.schema,
    "status": lifecycle.status,
    "translate": lifecycle.translate,
    "ui": lifecycle.ui,
    "reconcile": lifecycle.reconcile,
    "stop": lifecycle.stop,
    "gc": lifecycle.gc,
    "export": lifecycle.export,
    "repro": lifecycle.repro,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
# SPEC and the options of `sweep` are parsed by `sweep`
app.command("submit", options_metavar="SPEC [OPTIONS]", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(
    execution.submit
)
app.add_typer(data.app, name="data")
app.add_typer(results.app, name="results")
for _each in (*app.registered_commands, *data.app.registered_commands, *results.app.registered_commands):
    _each.cls = OnceCommand


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command and exits the process."""
    open_streams()
    gc.set_threshold(100_000, 50, 1000)  # a plan makes millions of small objects that live until the end
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: Sequence[str]) -> int:
    """Runs one command -> exit code. Errors become lines on stderr."""
    debug = "--debug" in arguments
    LOGGED.clear()
    try:
        _check_models_package()
        ended = app(args=list(arguments), prog_name="nmt-ablate", standalone_mode=False)
        return _interrupted() if ended == 130 else ended if isinstance(ended, int) else 0
    except SystemExit as end:
        if end.code == 130:  # typer ends so at Ctrl-C
            return _interrupted()
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except UserError as error:
        return _say(2, *error.lines)
    except (LockedError, FencedError) as error:
        return _say(3, str(error))
    except RemoteError as error:
        return _say(1, str(error))
    except Detached as left:
        for line in left.lines:
            log(line)
        return 130
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # the last resort: one line instead of a trace
        if hasattr(error, "format_message"):  # typer's, of wrong usage
            return _usage(error, list(arguments))
        if debug:
            raise
        if (limit := exceeded(error)) is not None:
            return _say(1, limit)
        if isinstance(error, OSError) and error.strerror:
            named = f"{shown(str(error.filename), 300)}: {error.strerror}" if error.filename else error.strerror
            return _say(2 if error.errno == errno.ENAMETOOLONG else 1, named)
        text = " ".join(str(error).split())
        return _say(1, f"{type(error).__name__}: {text[:500]} (nmt-ablate --debug ... shows where)")


def _usage(error: Any, arguments: list[str]) -> int:
    """One line for a wrong option, with the value found; the help where there was no command."""
    message = error.format_message()
    if "\n" in message or not message:
        error.show()
        return 2
    names = getattr(getattr(error, "param", None), "opts", [])
    given = next((f"; found {shown(value)}" for name, value in pairwise(arguments) if name in names), "")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "nmt-ablate"
    return _say(2, f"{message.rstrip('.')}{given} ({command} --help shows what it takes)")


def _interrupted() -> int:
    return _say(130, "interrupted; the same command resumes from the last checkpoint")


def _say(code: int, *lines: str) -> int:
    for line in lines:
        log(f"error: {line}")
    return code


def _check_models_package() -> None:
    """UserError where another distribution's package `models` is found in place of ours."""
    found = find_spec("models")
    if found is None or found.origin is None or Path(found.origin).resolve().parent.parent != ROOT:
        where = "nowhere" if found is None else str(found.origin)
        raise UserError(f"the package `models` is found at {where}; expected beside `orchestrator`: install with pip install -e .")
