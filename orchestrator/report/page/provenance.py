"""Provenance of the figures: runs with their keys, and their environments; and the keys of specs that differ."""

import json
from typing import Any, NamedTuple

from orchestrator.ledger.provenance import flat
from orchestrator.report.find import SeedResult, is_shipped
from orchestrator.report.page.section import Section
from orchestrator.specs.row import short_id


class RunLine(NamedTuple):
    """One run of a row. environment: letter of its environment. shipped: the run came with the product."""

    row: str
    outcome: SeedResult
    environment: str
    shipped: bool


def provenance(section: Section) -> tuple[list[RunLine], dict[str, dict[str, Any]]]:
    """Returns the runs of a table, and their environments: letter -> field name -> value."""
    ledger = section.finder.ledger
    runs: list[RunLine] = []
    letters: dict[str, str] = {}
    environments: dict[str, dict[str, Any]] = {}
    for row in section.rows:
        for outcome in section.outcomes.get(row.id, ()):
            key = outcome.keys.train
            whole = outcome.capsule or (None if key is None else ledger.read_capsule(key)) or {}
            capsule = {name: value for name, value in whole.items() if name != "key"}
            text = json.dumps(capsule, sort_keys=True)
            letter = letters.setdefault(text, chr(ord("A") + count) if (count := len(letters)) < 26 else f"A{count}") if capsule else ""
            if capsule:
                environments[letter] = {name: value for name, value in flat(capsule).items() if value is not None}
            runs.append(RunLine(short_id(row.id), outcome, letter, is_shipped(ledger, key)))
    return runs, environments


def varying(section: Section) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the spec keys that differ between rows, and their values in each row (by short name)."""
    specs = {row.id: row.spec for row in section.rows if row.spec is not None}
    plain = {short_id(row_id): flat(spec.model_dump(mode="json", exclude={"seed"})) for row_id, spec in specs.items()}
    keys = list(dict.fromkeys(key for spec in plain.values() for key in spec))
    differ = [key for key in keys if len({_text(spec, key) for spec in plain.values()}) > 1]
    return differ, {name: [_text(spec, key) for key in differ] for name, spec in plain.items()}


def _text(spec: dict[str, Any], key: str) -> str:
    value = spec.get(key, "–")
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)  # as YAML has them
