"""Fields that specs have got since their keys were first made. They stand in grown.json."""

import json
from pathlib import Path
from typing import Any

_FIELDS = json.loads(Path(__file__).with_name("grown.json").read_text())

GROWN: dict[str, Any] = _FIELDS["grown"]
"""Fields added after FORMAT 1 (`model.max_positions`, `connection/dense.mode`, ...) and the values that older runs had in effect.

A field with that value is left out of the key, so that a new option does not rename finished runs."""

FORMER: dict[str, dict[str, Any]] = _FIELDS["former"]
"""Options that components no longer have, and the values that count now. Keys, recorded specs and their digests have them."""

LATER: list[str] = _FIELDS["later"]
"""Fields of GROWN added after the first results were shipped. Digests of whole specs, as of looks, leave out their old values too."""
