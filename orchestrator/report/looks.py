"""Looks in RESULTS/looks.json, and the significance level of each. A look is one judgement of a claim with other seeds.

Two tests of one claim give more false positives than one test, so each look has a stricter level.

    {"claims": {ID: [{"time", "row", "against", "seeds": {row: [seed, ..]}, "runs": {row: digest}, "judged": {metric: {"delta", "p",
                      "level", "word"}}, "planned": number of looks or null}]}}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from orchestrator.errors import RemoteError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import read_or_refuse, write_document
from orchestrator.ledger.layout import LOOKS
from orchestrator.ledger.results import Ledger, Record
from orchestrator.ledger.run_lock import RunLock
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.safe_text import log_once
from orchestrator.scoring.significance.estimator import LEVEL

KEY = digest("looks")
POCOCK = (0.05, 0.0294, 0.0221, 0.0182, 0.0158, 0.0142, 0.0130, 0.0120, 0.0112, 0.0106)
"""Level of each of n looks at equal steps, 0.05 in total (Pocock 1977, Biometrika 64:191), n = 1 to 10."""


def level_of(look: int, planned: int | None = None) -> float:
    """Returns the level of a claim's n-th look: Pocock's level for the planned number of looks.

    Unplanned looks begin at 0.05. Each next look has Pocock's level for one more look. Levels 0.05 and 0.0221 give 6.2 % false positives,
    at equal steps and with a known variance.
    """
    looks = planned if planned is not None and look <= planned else look + (look > 1)
    return POCOCK[looks - 1] if looks <= len(POCOCK) else POCOCK[-1] * len(POCOCK) / looks


@dataclass(frozen=True)
class State:
    """The evidence of a look: row, its controls and the seeds of each. runs: digests of their records.

    claim: digest of the claim in its setting.
    """

    claim: str
    row: str
    against: str
    seeds: Mapping[str, list[int]]
    runs: Mapping[str, str]


@dataclass
class Looks:
    """The looks that a ledger and its mirrors record. A published ledger is only read.

    claims: claim -> its looks in the order of time. new: looks that this process adds.
    """

    ledger: Ledger
    claims: dict[str, list[Record]] = field(default_factory=dict)
    new: dict[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for root in (*self.ledger.mirrors, self.ledger.root):
            self.claims = together(self.claims, read(root))

    def number(self, state: State) -> int:
        """Returns the number of this look at the claim, from 1. A look that is recorded keeps its number.

        Looks with the same runs count once. If some looks have all rows of the state, the others do not record it.
        """
        every = [record["runs"] for record in self.claims.get(state.claim, [])]
        runs = [known for place, known in enumerate(every) if known not in every[:place]]
        whole = [known for known in runs if state.runs.keys() <= known.keys()] or runs
        recorded = next((place for place, known in enumerate(runs) if known in whole and not _differ(known, state.runs)), None)
        until = [*runs, state.runs] if recorded is None else runs[: recorded + 1]
        return 1 + sum(_differ(old, new) for old, new in pairwise(until))

    def planned(self, state: State, now: Mapping[str, int]) -> int | None:
        """Returns the number of looks that a sweep planned before the claim's first look. now: row -> planned looks, for a first look."""
        return next((record["planned"] for record in self.claims.get(state.claim, [])[:1]), now.get(state.row))

    def add(self, state: State, judged: Mapping[str, Record], planned: int | None) -> None:
        """Adds a look, unless a recorded look has the same runs of these rows. `save` writes it."""
        if not any(state.runs.items() <= record["runs"].items() for record in self.claims.get(state.claim, [])):
            time = datetime.now(UTC).isoformat(timespec="microseconds")
            about = {"row": state.row, "against": state.against, "seeds": dict(state.seeds), "runs": dict(state.runs)}
            self.new[state.claim] = {"time": time, **about, "judged": dict(judged), "planned": planned}

    def save(self) -> None:
        """Writes the new looks into the results folder, if it exists. One line on stderr if writing fails."""
        root = self.ledger.root
        if not self.new or not root.is_dir() or root.resolve() == PUBLISHED_LEDGER:
            return
        try:
            with RunLock(root / "looks.lock").acquire(timeout=60):  # with a bucket, the lock fetches the looks of other processes
                write(root, together(read(root), {claim: [record] for claim, record in self.new.items()}))
        except (OSError, RemoteError) as error:
            log_once(f"warning: {root / LOOKS}: {getattr(error, 'strerror', None) or error}; this look at the results is not recorded")


def _differ(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Returns whether a row of both looks has other runs in the newer look. An additional control makes no new look."""
    return any(new[name] != run for name, run in old.items() if name in new)


def read(root: Path) -> dict[str, list[Record]]:
    """Returns the looks of one folder. UserError: the file is damaged. Without it, a later look would count as the first."""
    document = read_or_refuse(root / LOOKS, "the looks at these results; restore the file")
    return {} if document is None else dict(document["claims"])


def write(root: Path, claims: Mapping[str, Sequence[Record]]) -> None:
    write_document(root / LOOKS, {"claims": dict(claims)}, KEY)


def together(ours: Mapping[str, Sequence[Record]], theirs: Mapping[str, Sequence[Record]]) -> dict[str, list[Record]]:
    """Returns the looks of both, each once, in the order of time."""
    both = {claim: [*ours.get(claim, ()), *theirs.get(claim, ())] for claim in {**ours, **theirs}}
    unlike = {claim: [one for i, one in enumerate(each) if one not in each[:i]] for claim, each in both.items()}
    return {claim: sorted(each, key=lambda record: str(record["time"])) for claim, each in unlike.items()}


def confidence(look: int, level: float) -> str:
    """Returns the confidence of a look's intervals: `95 %`, `98.4 % (look 4, level 0.0158)`."""
    return f"{100 * (1 - level):.3g} %" + (f" (look {look}, level {level:g})" if look > 1 or level != LEVEL else "")
