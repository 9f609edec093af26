"""Declarations of the options that commands share. It imports only light modules, because `--help` loads it."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_origin

from typer import Option
from typer.core import TyperCommand

from orchestrator.errors import UserError

Seed = Annotated[int | None, Option("--seed", min=0, max=2**32 - 1, help="Random seed (default 1).")]
Seeds = Annotated[str | None, Option("--seeds", metavar="1,4-6,..", help="Seeds; default: those of the file (with --tune: seeds.judge).")]
Baseline = Annotated[str | None, Option("--baseline", metavar="ROW", help="Compare with this row; default: the row's own start.")]
SOME = ("controls", "max_hours", "until_decided", "tune", "tune_with", "ladder")
"""Fields of `RowOptions` and `ExecutionOptions` that only some commands take."""


def expand_options(*some: str, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces a command's parameter `options`, a dataclass, by one option for each of its fields with a form on the command line.

    some: Fields of SOME that this command also accepts.
    defaults: Fields whose default differs for this command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        options = signature.parameters["options"].annotation
        own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
        shared = [
            parameter.replace(default=defaults.get(name, parameter.default))
            for name, parameter in inspect.signature(options).parameters.items()
            if get_origin(parameter.annotation) is Annotated and (name not in SOME or name in some)
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
