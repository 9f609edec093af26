"""Claims of a table's file: differences that its runs are expected to show, written down before they run.

    claims:
      - {row: fused, against: base, metric: bleu, effect: 0.8, margin: 0.3, seeds: 5}

They add to the differences that the paper reports. A claim without an effect asks whether two rows differ.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from orchestrator.specs.base import Strict
from orchestrator.specs.positions import Document, nearest, shown

Metric = Literal["bleu", "chrf", "nll", "rougeL"]


class Claim(Strict):
    """A difference that the runs are expected to show, written down before they run (docs/verdicts.md)."""

    row: str
    """Name of the row that differs."""
    effect: Annotated[float, Field(gt=-1000, lt=1000)] | None = None
    """The expected difference to `against`, in the metric's units. 0: no difference; this needs a margin. null: no expectation; the verdict
    is `higher`, `lower` or `open`."""
    against: str | None = None
    """Name of the other row; null: the row that the table compares with."""
    metric: Metric | None = None
    """Metric of the difference; null: the row's metric."""
    margin: Annotated[float, Field(gt=0, lt=1000)] | None = None
    """Largest effect that a claim of no effect allows. For other claims: an effect below the margin is too small to be the claimed one.
    null: 0.5 for bleu, chrf and rougeL."""
    seeds: Annotated[int, Field(ge=2, le=1000)] = 2
    """Minimum number of seeds per row for a verdict on the claim."""
    changes: list[str] | None = None
    """Dotted keys of the spec in which the row may differ from `against`, such as [model.encoder.connection]; keys below them are included.
    A session (`verdict --session`) refuses a row that differs in other keys."""

    @model_validator(mode="after")
    def _sound(self) -> "Claim":
        if self.effect == 0 and self.margin is None:
            raise ValueError("margin is missing; expected one, because effect is 0")
        if self.effect is None and self.margin is not None:
            raise ValueError("effect is missing; expected one, because there is a margin")
        if self.against == self.row:
            raise ValueError(f"against is {self.against!r}, the row itself; expected another row")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out an absent `changes`, as earlier versions recorded claims."""
        return {name: value for name, value in plain(self).items() if name != "changes" or value is not None}


@dataclass(frozen=True)
class RowClaim:
    """A claim with the addresses of its rows. source: `file`, or `paper` for a difference that the paper reports. of: as in the file."""

    row: str
    against: str | None
    effect: float | None
    metric: str | None = None
    margin: float | None = None
    seeds: int = 2
    changes: Sequence[str] | None = None
    source: str = "file"
    of: Claim | None = field(default=None, compare=False)


def check(document: Document, rows: Collection[str]) -> None:
    """Adds a problem for each row that a claim names and the file does not have, and for each second claim on the same difference."""
    seen = []
    for path in document.below("claims"):
        claim = {name[-1]: value for name, value in document.below(*path).items()}
        difference = [claim.get(name) for name in ("row", "against", "metric")]
        if difference in seen and isinstance(difference[0], str):
            document.wrong(path, f"found another claim on {shown(difference[0])}, with the same against and metric; expected one")
        seen.append(difference)
        for key in ("row", "against"):
            if isinstance(name := claim.get(key), str) and name not in rows:
                document.wrong((*path, key), f"found '{shown(name)}': no such row; {nearest(name, rows)}")


def of_table(address: str, claims: Sequence[Claim]) -> list[RowClaim]:
    found = []
    for claim in claims:
        against = None if claim.against is None else f"{address}/{claim.against}"
        found.append(RowClaim(**claim.model_dump() | {"row": f"{address}/{claim.row}", "against": against}, of=claim))
    return found


def as_data(address: str, path: Path, claims: Sequence[Claim]) -> dict[str, Any]:
    """Returns the record of a table's claims for a sweep's file. path: file of the table."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"table": address, "file_sha256": sha256, "claims": [claim.model_dump(mode="json") for claim in claims]}


def of_data(entries: Sequence[Mapping[str, Any]], address: str) -> list[RowClaim]:
    """Returns the claims of a table from records of `as_data`."""
    claims = [Claim.model_validate(claim) for entry in entries if entry["table"] == address for claim in entry["claims"]]
    return of_table(address, claims)
