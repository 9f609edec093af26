"""What differs between the specs of a table's rows."""

from __future__ import annotations

import json
from typing import Any

from orchestrator.ledger.provenance import flat
from orchestrator.report.figures import short_id
from orchestrator.report.page.section import Section

ABSENT = "–"


def varying(section: Section) -> tuple[list[str], dict[str, list[str]]]:
    """Keys of the spec that are not the same in all rows, and their values in each row (by short name)."""
    specs = {row.id: row.spec for row in section.rows if row.spec is not None}
    plain = {short_id(row_id): flat(spec.model_dump(mode="json", exclude={"seed"})) for row_id, spec in specs.items()}
    keys = list(dict.fromkeys(key for spec in plain.values() for key in spec))
    differ = [key for key in keys if len({_text(spec, key) for spec in plain.values()}) > 1]
    return differ, {name: [_text(spec, key) for key in differ] for name, spec in plain.items()}


def _text(spec: dict[str, Any], key: str) -> str:
    value = spec.get(key, ABSENT)
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)  # as YAML has them
