"""What all replaceable parts of a model have in common."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from models.site import Site


class Component(nn.Module):
    """A module that stands at a site. `check` names what is wrong with a set of options there, before anything is built."""

    registry: str
    kind: str
    version: int
    packable = True
    """Positions are treated one by one, or by MultiHeadAttention alone, so that states may come as packed rows (models.packing)."""
    rate = 1.0
    """Factor of the learning rate of all parameters within, an option of some; any module may have one (orchestrator.training.optim)."""

    def __init__(self, site: Site) -> None:
        super().__init__()

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        """What is wrong with the options at this site, in one line; None: nothing. `site`: side, num_layers, d_model, num_heads, norm."""
        return cls.check_rate(options)

    @staticmethod
    def check_rate(options: dict[str, Any], *, learns: bool = True) -> str | None:
        """What is wrong with the option `rate`, in one line. `learns`: there are parameters that it is about."""
        rate = options.get("rate", 1.0)
        if rate <= 0:
            return f"rate is {rate}; expected more than 0"
        return None if learns or rate == 1.0 else f"found rate {rate} where nothing learns at it; expected 1.0"

    @classmethod
    def needs_fp32(cls, site: dict[str, Any], **options: Any) -> str | None:
        """Why fewer bits would change more than rounding: decoding in them is refused, training warned of. None: any precision will do."""
        return None

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """What it learned to read, by name: [.., readers, sources], or [.., sources] of one reader; nan where there is no source.

        s: of a residual, the stream that its `read` or `end` is given; leading axes are tokens then. Empty: it has no such numbers.
        """
        return {}


def packable(module: nn.Module) -> bool:
    """Whether every component in a module takes packed rows."""
    return all(component.packable for component in module.modules() if isinstance(component, Component))
