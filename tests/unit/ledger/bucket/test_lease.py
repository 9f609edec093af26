"""A write whose answer got lost: the head in the bucket is ours where token and beat are, and else another's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.errors import RemoteError
from orchestrator.ledger.bucket import lease
from orchestrator.ledger.bucket.head import Head


def head(token: str, beat: int) -> Head:
    return Head("ab" * 8, epoch=1, beat=beat, held=True, owner={"token": token})


NOT_OURS = (head("us", 2), head("us", 4), head("them", 3), None, RemoteError("away"))


@pytest.mark.parametrize(("there", "mine"), [(head("us", 3), True), *((each, False) for each in NOT_OURS)])
def test_the_head_is_ours_where_owner_and_beat_are(monkeypatch: pytest.MonkeyPatch, there: Any, mine: bool) -> None:
    """The beat counts writes: an older one of ours is what the lost write was to replace."""

    def read(bucket: Any, group: str) -> Any:
        if isinstance(there, Exception):
            raise there
        return None if there is None else (there, "found")

    monkeypatch.setattr(lease.heads, "read", read)
    found = lease.mine_of(SimpleNamespace(bucket=None), "ab" * 8, head("us", 3))  # type: ignore[arg-type]
    assert found == ("found" if mine else None)  # type: ignore[comparison-overlap]
