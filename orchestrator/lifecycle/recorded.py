"""Finds a finished run by address or train key and returns it as a row, with its parents, that can be run again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import FINISHED
from orchestrator.ledger.sweep_files import read_sweeps
from orchestrator.specs.positions import shown
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.plan import Data, keys_for


@dataclass(frozen=True)
class Recorded:
    """A recorded run. row: with its parents, at the recorded seed. keys: address of the row or a parent -> keys. notes: messages."""

    row: Row
    keys: dict[str, Keys]
    notes: list[str] = field(default_factory=list)


def by_key(ledger: Ledger, prefix: str) -> Recorded:
    """The run whose train key starts with `prefix`. Raises UserError if there is none, several, or an unfinished one."""
    found = [run.key for run in ledger.runs() if run.key.startswith(prefix)]
    if len(found) != 1:
        raise UserError(f"{shown(prefix)}: {len(found)} runs in {ledger.root} have such a train key; expected one")
    _check_finished(ledger, found[0], found[0][:16])
    return _from_spec(ledger, found[0], ())


def of_row(ledger: Ledger, row: Row, data_dir: Path | None) -> Recorded:
    """The recorded run of a row under its current keys, else the only finished run of its address and seed with the recorded spec.

    Raises UserError if the corpus is absent, or if no finished run or several are recorded.
    """
    assert row.spec is not None
    data = Data(data_dir)
    keys = keys_for(row, data)
    if keys.train is None:
        raise UserError(f"{row.id}: corpus {row.spec.data.corpus} is absent (--data-dir); see `nmt-ablate data get {row.spec.data.corpus}`")
    if ledger.read_train(keys.train) is not None:
        _check_finished(ledger, keys.train, row.id)
        chain, current = {}, row
        while current is not None:
            chain[current.id] = keys_for(current, data)
            current = current.parent  # type: ignore[assignment]
        return Recorded(row, chain)
    others = [key for key in _runs_called(ledger, row.id, row.spec.seed) if (ledger.read_train(key) or {}).get("status") in FINISHED]
    if not others:
        raise UserError(f"{row.id} seed {row.spec.seed}: found no recorded run in {ledger.root}; expected nmt-ablate run {row.id} first")
    if len(others) > 1:
        few = ", ".join(key[:16] for key in others[:8])
        raise UserError(
            f"{row.id} seed {row.spec.seed}: changed since, and {len(others)} runs of it are recorded; expected one of the keys {few}"
        )
    found = _from_spec(ledger, others[0], ())
    note = f"{row.id} or its data changed since: its train key is now {keys.train[:16]}; the recorded run {others[0][:16]} is run again"
    return replace(found, notes=[note, *found.notes])


def _check_finished(ledger: Ledger, key: str, name: str) -> None:
    status = (ledger.read_train(key) or {}).get("status")
    if status not in FINISHED:
        raise UserError(f"{name}: its recorded run is {status or 'unfinished'}; expected one that is done")


def _runs_called(ledger: Ledger, address: str, seed: int) -> list[str]:
    """Train keys of the runs of an address and seed, from sweep files and spec.yaml."""
    named = [key for key, rows in read_sweeps(ledger.root).rows.items() if any((row.id, row.seed) == (address, seed) for row in rows)]
    return list(dict.fromkeys([*named, *_specs_called(ledger, address, seed)]))


def _specs_called(ledger: Ledger, address: str, seed: int) -> Iterator[str]:
    for run in ledger.runs():
        spec = ledger.read_spec(run.key) or {}
        if (spec.get("id"), spec.get("seed")) == (address, seed):
            yield run.key


def _from_spec(ledger: Ledger, key: str, seen: tuple[str, ...]) -> Recorded:
    """A run and its parents, from their spec.yaml files. seen: keys of runs that start from it, to exclude cycles."""
    recorded = ledger.read_spec(key)
    if recorded is None:
        raise UserError(f"{key[:16]}: has no spec.yaml in {ledger.root}, so that nothing says what to run")
    address, seed = str(recorded.get("id")), recorded.get("seed")
    try:
        spec = RunSpec.model_validate(recorded.get("spec"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{address}: its recorded spec is none that this version can run: {where}: {first['msg']}") from None
    parent: Recorded | None = None
    if spec.init_from is not None:
        parent = _from_spec(ledger, _parent_of(ledger, key, spec.init_from, spec.seed, seen), (*seen, key))
    workers = int((ledger.read_train(key) or {}).get("world_size") or 1)
    row = Row(address, address, "run", spec, {}, [], workers, False, "", 1, None if parent is None else parent.row)
    return Recorded(row.at(int(seed if seed is not None else spec.seed)), {address: _keys(recorded)} | (parent.keys if parent else {}))


def _parent_of(ledger: Ledger, key: str, address: str, seed: int, seen: tuple[str, ...]) -> str:
    """Train key of the run that a run starts from: the one in its own record, else the only one of that address and seed."""
    started = ((ledger.read_train(key) or {}).get("parent") or {}).get("key")
    if started is not None and ledger.read_spec(str(started)) is not None:
        return str(started)
    swept = {named.parent for named in read_sweeps(ledger.root).rows.get(key, []) if named.parent is not None}
    found = sorted(swept) or list(_specs_called(ledger, address, seed))
    found = [one for one in found if one not in (*seen, key)]
    if len(found) != 1:
        raise UserError(f"{key[:16]}: starts from {address} seed {seed}, of which {len(found)} runs are recorded; expected one")
    return found[0]


def _keys(recorded: dict[str, Any]) -> Keys:
    keys = recorded.get("keys") or {}
    train = recorded.get("key")
    return Keys(train if isinstance(train, str) else None, keys.get("decode"), keys.get("score"), keys.get("tune"))


def is_key(target: str) -> bool:
    """Returns True for a train key or a prefix of 12 or more hexadecimal digits."""
    return re.fullmatch(r"[0-9a-f]{12,64}", target) is not None
