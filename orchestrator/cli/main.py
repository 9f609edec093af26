"""`nmt-ablate`: the commands, and the exit codes of errors.

Exit codes: 0 done, 1 a row failed or diverged (or an unexpected error), 2 bad input, 3 locked by another process, 4 no such combination in
the grid (`explain`), 5 the Ray cluster is gone or did not start, 6 a claim reversed or without such an effect, 7 open (`verdict`),
130 interrupted.

The modules of `cli` declare arguments and options. They import nothing heavy, so `--help` is fast. A command imports its code when it is
called; long commands are in `cli.commands`.
"""

import errno
import gc
import os
import resource
import sys
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchestrator.cli import data, lifecycle, report, results, specs
from orchestrator.cli import run as execution
from orchestrator.cli.options import OnceEach
from orchestrator.cli.output import version
from orchestrator.errors import CommandError, Detached
from orchestrator.safe_text import LOGGED, log
from orchestrator.specs.positions import OVERRIDE, shown

GROUPS: dict[str, tuple[Any, ...]] = {
    "Train": (execution.run, execution.sweep, specs.plan, execution.submit, lifecycle.status, execution.noise),
    "Results": (report.table, report.verdict, report.report, report.analyse, report.translate, report.export, report.repro),
    "Rows and components": (specs.list_, specs.show, specs.describe, specs.explain, specs.ablate, specs.new, specs.schema),
    "Data and storage": (data.app, results.app, lifecycle.ui, lifecycle.reconcile, lifecycle.gc),
}
"""Title in `--help` -> the commands under it."""
SETTINGS: dict[Any, dict[str, Any]] = {
    execution.submit: {
        "options_metavar": "SPEC [OPTIONS]",  # which `sweep` parses
        "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
    }
}


def name_of(command: Any) -> str:
    return str(command.info.name if isinstance(command, typer.Typer) else command.__name__.rstrip("_"))


class GroupedHelp(TyperGroup):
    """Lists the commands in groups, each with the first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=200)) for name in map(name_of, commands)])


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
for _command in chain.from_iterable(GROUPS.values()):
    if isinstance(_command, typer.Typer):
        app.add_typer(_command)
    else:
        app.command(name_of(_command), cls=OnceEach, **SETTINGS.get(_command, {}))(_command)


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


def main() -> None:
    """Runs one command and exits the process."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the caller closed it: a file opened later would get its number
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    gc.set_threshold(100_000, 50, 1000)  # a plan makes millions of small objects that live until the end
    code = run(sys.argv[1:])
    gc.freeze()  # else Python searches all of them for cycles several times before it ends
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs one command -> exit code. Errors become lines on stderr."""
    LOGGED.clear()
    try:
        ended = app(args=list(arguments), prog_name="nmt-ablate", standalone_mode=False)  # 130, typer's exit code for Ctrl-C
    except SystemExit as end:  # typer's, of a reader that is gone
        ended = end.code
    except KeyboardInterrupt:
        ended = 130
    except Detached as left:
        log(left.lines[0])
        return left.code
    except CommandError as error:
        return _say(error.code, *error.lines)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # the last resort: one line instead of a trace
        if hasattr(error, "format_message"):  # typer's, of wrong usage
            return _usage(error, arguments)
        if "--debug" in arguments:
            raise
        if isinstance(error, OSError) and error.strerror:
            named = f"{shown(str(error.filename), 300)}: {error.strerror}" if error.filename else error.strerror
            return _say(2 if error.errno == errno.ENAMETOOLONG else 1, named)
        text = " ".join(str(error).split())
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        memory = "" if limit == resource.RLIM_INFINITY else f"found ulimit -v {limit // 1024:,}, which may be too little; "
        return _say(1, f"{type(error).__name__}: {text[:500]} ({memory}nmt-ablate --debug ... shows where)")
    if ended == 130:
        resumes = "; the same command resumes from the last checkpoint" if {*arguments} & {"run", "sweep", "noise", "repro"} else ""
        return _say(130, f"interrupted{resumes}")
    return ended if isinstance(ended, int) else int(ended is not None)


def _usage(error: Any, arguments: Sequence[str]) -> int:
    """Prints one line about a wrong option, with the value found, or the help if there is no command. Returns the exit code."""
    message = error.format_message()
    if "\n" in message or not message:
        error.show()
        return 2
    names = getattr(getattr(error, "param", None), "opts", [])
    given = next((f"; found {shown(value)}" for name, value in pairwise(arguments) if name in names), "")
    if "unexpected extra argument" in message and "--set" in chain.from_iterable(param.opts for param in error.ctx.command.params):
        words = " ".join(f"--set {shown(word)}" for word in arguments if OVERRIDE.fullmatch(word) and word in message)
        given = f"; did you mean {words}?" if words else ""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "nmt-ablate"
    return _say(2, f"{message.rstrip('.')}{given} ({command} --help shows what it takes)")


def _say(code: int, *lines: str) -> int:
    log(*(f"error: {line}" for line in lines))
    return code
