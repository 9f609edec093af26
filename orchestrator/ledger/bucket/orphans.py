"""Objects that no head refers to: uploads whose head was never written, because the process or the network failed in between."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.ledger.bucket import head as heads
from orchestrator.ledger.bucket.head import names_of

if TYPE_CHECKING:
    from orchestrator.ledger.bucket.mirror import Mirror

_OBJECT = re.compile(r"files/(?P<group>[0-9a-f]{16}|sweeps/[^/]+?)(?:/.+|\.(?:asha\.json|json|stop))\.(?P<epoch>[0-9]+)-[0-9a-f]{16}")


@dataclass(frozen=True)
class Orphan:
    name: str
    size: int
    why: str


def find(mirror: Mirror, *, delete: bool) -> list[Orphan]:
    """Finds orphans. Skips held groups and epochs after the head's, whose uploads may be under way. May raise RemoteError."""
    by_group: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for found in mirror.bucket.list("files"):  # listed before the heads are read, so that later uploads are not taken for orphans
        if match := _OBJECT.fullmatch(found.name):
            by_group[match["group"]].append((found.name, found.size, int(match["epoch"])))
    orphans = []
    for group, objects in sorted(by_group.items()):
        answer = heads.read(mirror.bucket, group)
        if answer is None or answer[0].held:
            continue
        known = names_of(answer[0].files.values())
        lost = [Orphan(name, size, "no head names it") for name, size, epoch in objects if name not in known and epoch <= answer[0].epoch]
        if delete:
            mirror.bucket.delete(orphan.name for orphan in lost)
        orphans += lost
    probes = [Orphan(found.name, found.size, "a probe that was killed") for found in mirror.bucket.list("probe")]
    if delete:
        mirror.bucket.delete(orphan.name for orphan in probes)
    return orphans + probes
