"""The spec.yaml of a recorded run, verified: by its digest or, where a file of an earlier version has none, by the run's train key.

The train key is recomputed from the spec and the sha256 of the text in train.json, so that the corpus may be absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from orchestrator.data.prepare import about
from orchestrator.data.prepare import manifest as manifest_of
from orchestrator.errors import UserError
from orchestrator.ledger.keys import component_versions, keys_of
from orchestrator.ledger.packed import exists
from orchestrator.ledger.results import Ledger, Record
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.schema import RunSpec


def read_spec(ledger: Ledger, train_key: str) -> Record | None:
    """`Ledger.read_spec`; None, and reported as damaged, if it is not valid or its train key is another."""
    recorded = ledger.read_spec(train_key)
    if recorded is None or "digest" in recorded:
        return recorded
    try:
        found = _train_key(RunSpec.model_validate(recorded.get("spec")), ledger.read_train(train_key) or {})
        if found in (None, train_key):
            return recorded
        reason = f"its spec has train key {str(found)[:16]}, expected {train_key[:16]}"
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"its spec is none that this version can run: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    path = next(path for run in ledger.places(train_key) if exists(path := run / "spec.yaml"))
    ledger.reader.tell(path, reason)
    return None


def _train_key(spec: RunSpec, train: Mapping[str, Any]) -> str | None:
    """The train key of a recorded spec; None if this version cannot compute the key that it had then."""
    try:
        manifest = _manifest(spec, (train.get("text") or {}).get("sha256") or {})
        if manifest is None or any(version > 1 for version in component_versions(spec.model).values()):
            return None
        parent = (train.get("parent") or {}).get("key")
        return None if spec.init_from is not None and parent is None else keys_of(spec, manifest, parent).train
    except UserError:
        return None


def _manifest(spec: RunSpec, text: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest with the recorded sha256 of the text; None if they are not recorded. Those of test sets do not enter the train key."""
    if load_entry(spec.data.corpus).generated is not None:
        return manifest_of(spec.data, None)
    recorded = {"text": {name: text.get(name) for name in ("train", "valid")}, "tests": {spec.score.test: None}}
    return about(spec.data) | recorded if text else None
