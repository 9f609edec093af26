"""How often an option may be given."""

from typing import Any

from typer.core import TyperCommand

from orchestrator.errors import UserError


class OnceEach(TyperCommand):
    """Refuses an option with one value that is given twice: only the last value would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        order: list[Any] = self.make_parser(ctx).parse_args(list(args))[2]
        for option in (param for param in order if order.count(param) > 1 and not (param.multiple or param.is_flag)):
            raise UserError(f"{option.opts[0]}: found twice; expected one value")
        return super().parse_args(ctx, args)


class InPairs(OnceEach):
    """An option of type list takes two values each time, which typer's declarations cannot say."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self.params:
            option.nargs = 2 if option.param_type_name == "option" and getattr(option, "multiple", False) else option.nargs
