"""A job of a Ray cluster as plain data. Does not import Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

ACTIVE, SUCCEEDED = ("PENDING", "RUNNING"), "SUCCEEDED"


@dataclass(frozen=True)
class Job:
    """status: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED. exit_code: of the entry point, None if it did not end by itself.
    started, ended: Unix seconds."""

    id: str
    status: str
    exit_code: int | None
    message: str
    metadata: dict[str, str]
    started: float | None
    ended: float | None

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.id,
            "sweep": self.metadata.get("nmt_sweep"),
            "commit": self.metadata.get("nmt_commit"),
            "status": self.status,
            "exit_code": self.exit_code,
            "started": self.started,
            "ended": self.ended,
        }


class JobExists(Exception):
    """A job of this id exists."""


class JobClient(Protocol):
    """The queries that submitting and following need; implemented by `api.Client`."""

    def jobs(self) -> list[Job]: ...

    def job(self, id: str) -> Job | None: ...

    def logs(self, id: str) -> AsyncIterator[str]: ...
