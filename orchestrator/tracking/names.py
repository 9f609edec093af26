"""Names and texts that MLflow accepts over REST. Its database takes any, so only a server refuses them."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.safe_text import visible
from orchestrator.tracking.environment import redact

MAX_KEY = 250

_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)


def valid_name(name: str) -> str:
    """A valid key of a metric, parameter or tag: letters, digits and `_-. :/`, and no path that has a shorter form (`a//b`, `../a`)."""
    parts = [re.sub(r"^\.*$|^\.\.", "_", part) for part in _FORBIDDEN.sub("_", name).split("/")]
    key = "/".join(parts)
    return key if len(key) <= MAX_KEY else key[:MAX_KEY].rstrip("/.")


def text(value: Any, limit: int) -> str:
    """A parameter or tag: redacted, control characters but line ends escaped (PostgreSQL refuses NUL), and cut to `limit` characters."""
    plain = redact("" if value is None else value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value))
    plain = "\n".join(map(visible, plain.split("\n")))
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
