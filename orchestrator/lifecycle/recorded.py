"""Finds a finished run by address or train key and returns it as a row, with its parents, that can be run again."""

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys, without_former
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import FINISHED
from orchestrator.specs.messages import problems_of
from orchestrator.specs.positions import dotted, shown
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.plan import Data, keys_for

KEY = re.compile(r"[0-9a-f]{12,64}")  # a train key or its beginning


@dataclass(frozen=True)
class Recorded:
    """A recorded run. row: with its parents, at the recorded seed. keys: address of the row or a parent -> keys."""

    row: Row
    keys: dict[str, Keys]


def by_key(ledger: Ledger, prefix: str) -> Recorded:
    """The run whose train key starts with `prefix`. Raises UserError if there is none, several, or an unfinished one."""
    found = [key for key in ledger.runs() if key.startswith(prefix)]
    if len(found) != 1:
        raise UserError(f"{shown(prefix)}: {len(found)} runs in {ledger.root} have such a train key; expected one")
    _check_finished(ledger, found[0], found[0][:16])
    return _from_spec(ledger, found[0])


def of_row(ledger: Ledger, row: Row, data_dir: Path | None) -> Recorded:
    """The recorded run of a row. UserError if the corpus is absent, or no run is recorded under the row's current key.

    The message names finished runs of this address and seed with other keys.
    """
    data, spec = Data(data_dir), row.run_spec
    keys, seed = keys_for(row, data), spec.seed
    if keys.train is None:
        raise UserError(f"{row.id}: corpus {spec.data.corpus} is absent (--data-dir); see `nmt-ablate data get {spec.data.corpus}`")
    if ledger.read_train(keys.train) is not None:
        _check_finished(ledger, keys.train, row.id)
        return Recorded(row, {each.id: keys_for(each, data) for each in row.lineage})
    records = {key: ledger.read_spec(key) or {} for key in ledger.runs()}
    others = [key for key, record in records.items() if (record.get("id"), record.get("seed")) == (row.id, seed)]
    others = [key[:16] for key in others if _status(ledger, key) in FINISHED]
    few = f"only runs of an earlier spec or corpus: {', '.join(others[:8])}" if others else "no recorded run"
    raise UserError(f"{row.id} seed {seed}: found {few} in {ledger.root}; expected nmt-ablate run {row.id} first, or a train key")


def _status(ledger: Ledger, key: str) -> str | None:
    return (ledger.read_train(key) or {}).get("status")


def _check_finished(ledger: Ledger, key: str, name: str) -> None:
    if (status := _status(ledger, key)) not in FINISHED:
        raise UserError(f"{name}: its recorded run is {status or 'unfinished'}; expected one that is done")


def _from_spec(ledger: Ledger, key: str) -> Recorded:
    """A run and its parents, from their spec.yaml files. The record of a run names the run that it starts from."""
    recorded = ledger.read_spec(key)
    if recorded is None:
        raise UserError(f"{key[:16]}: has no spec.yaml in {ledger.root}, so that nothing says what to run")
    address, seed = str(recorded.get("id")), recorded.get("seed")
    try:
        spec = RunSpec.model_validate(without_former(recorded.get("spec")))
    except ValidationError as error:
        first = problems_of(error, RunSpec)[0]
        why = f"{dotted(first.path)}: {first.message}"
        raise UserError(f"{address}: its recorded spec is none that this version can run: {why}") from None
    training = ledger.read_train(key) or {}
    started = (training.get("parent") or {}).get("key")
    if spec.init_from is not None and started is None:
        raise UserError(f"{key[:16]}: its record does not name the run of {spec.init_from} that it starts from")
    parent = None if started is None else _from_spec(ledger, started)
    workers = int(training.get("world_size") or 1)
    row = Row(address, address, "run", spec, {}, [], workers, False, "", 1, None if parent is None else parent.row)
    keys = Keys(**{"decode": None, "score": None} | (recorded.get("keys") or {}) | {"train": key})
    return Recorded(row.at(int(seed if seed is not None else spec.seed)), {address: keys} | (parent.keys if parent else {}))
