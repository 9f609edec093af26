"""Measured figures of one row: over its seeds, and relative to the row with which it is compared. Only the output rounds them.

Speeds: `nmt-ablate analyse --kind speed` writes RESULTS/speed/KEY16.json; rows of one file ran together and are comparable.

    {"measured": "2026-01-31T12:00:00", "batch": sentences of a decoded batch or null, "forced_length": true,
     "rows": [{"id", "train_key", "decode_key", "train_speed": [updates/s of each round], "decode_speed": [..]}, ..]}
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from orchestrator.files.listed import mapped
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import in_words
from orchestrator.report.find import SeedResult
from orchestrator.report.judgement import OfRow
from orchestrator.scoring.rouge import PRINCIPAL, ROUGE
from orchestrator.specs.row import Row

OURS = mapped(__file__, "columns.txt")
"""Measured columns in their order, with their heads, besides the row's `also` and `means`.

bleu: mean over seeds (bleu_spread: standard deviation, null for one seed); delta: difference to the strongest control (against), with its
interval; nll, chrf_delta: the same for the references' nll and for chrF; parts: contributions of precisions and lengths to delta;
controls: the other controls;
train_speed, decode_speed: ratios to the baseline, measured in one run;
tokens_per_second, sentences_per_second: rates of the runs themselves, which are not comparable.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Measured figures of a row over its finished seeds; None: not available. A row without a finished seed has a reason.

    scores: other scorings of the row and means of scores, by name. unfinished: seed -> its status. data: the corpus.
    same_as: another row that owns these runs. changed: components that changed since the training. Other fields: see `OURS`.
    """

    status: str
    reason: str = ""
    seeds: Sequence[int] = ()
    failed_as_stated: bool = False
    params: int | None = None
    bleu: float | None = None
    bleu_spread: float | None = None
    chrf: float | None = None
    tokens_per_second: float | None = None
    sentences_per_second: float | None = None
    data: str | None = None
    steps: Sequence[int] = ()
    signature: str | None = None
    unfinished: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    system: str | None = None
    params_added: int | None = None
    delta: float | None = None
    train_speed: float | None = None
    decode_speed: float | None = None
    same_as: str | None = None
    changed: Sequence[str] | None = None
    shipped: bool | None = None

    @property
    def score(self) -> float | None:
        """Returns the main score: ROUGE-L for summaries, else BLEU."""
        return self.scores.get(PRINCIPAL, self.bleu)

    def as_json(self, judged: OfRow) -> dict[str, Any]:
        """Returns the row's figures and its judgement."""
        names: tuple[str, ...] = _DONE if self.bleu is not None else _FAILED if self.failed_as_stated else _FAILED[:3]
        names += ("system",) * (self.system is not None) + ("params_added", "delta") * (self.delta is not None)
        plain = asdict(self)
        found = plain["scores"] | {name: plain[name] for name in names} | judged.as_json()
        return found | {name: plain[name] for name in _LATER if plain[name] is not None}


SPEEDS = ("train_speed", "decode_speed")
"""Columns of speeds; a ratio above 1 is faster than the baseline."""
RATES = ("tokens_per_second", "sentences_per_second")
"""Speeds of single runs under unknown load. They are not comparable and appear only in the JSON."""
_DONE = ("status", "seeds", "params", "bleu", "bleu_spread", "chrf", *RATES, "data", "steps", "signature", "unfinished")
_FAILED = ("status", "reason", "seeds", "failed_as_stated", "params", "steps", "data")
_LATER = (*SPEEDS, "same_as", "changed", "shipped")


def figures(row: Row, found: Sequence[SeedResult]) -> Ours | None:
    """Returns means over the finished seeds, or None without a record.

    Without a finished seed, only status and reason are set, and the parameters if the row failed by its own rule.
    """
    if not found:
        return None
    done = [o for o in found if o.status == "done" and o.bleu is not None]
    data = None if row.spec is None else str(row.spec.data.corpus)
    if not done:
        first, seeds = found[0], [o.seed for o in found]
        known = Ours(status=first.status, reason=in_words(first.status, first.reason), seeds=seeds)
        stated = replace(known, failed_as_stated=True, params=first.params, steps=[o.steps for o in found], data=data)
        return stated if first.stated else known
    bleus, seeds = [o.bleu for o in done if o.bleu is not None], [o.seed for o in done]
    return Ours(
        status="done",
        seeds=seeds,
        params=done[0].params,
        bleu=statistics.fmean(bleus),
        bleu_spread=statistics.stdev(bleus) if len(bleus) > 1 else None,
        chrf=_mean(o.chrf for o in done),
        tokens_per_second=_mean(o.tokens_per_second for o in done),
        sentences_per_second=_mean(o.sentences_per_second for o in done),
        data=data,
        steps=[o.steps for o in done if row.kind == "run"],
        signature=done[0].signature,
        unfinished={str(o.seed): in_words(o.status, o.reason) for o in found if o.seed not in seeds},
        scores=_others(row, done),
        system=", ".join(dict.fromkeys(o.system for o in done if o.system)) or None,
    )


def _others(row: Row, done: Sequence[SeedResult]) -> dict[str, float]:
    """Returns other scorings of the row and means of scores. A figure that any seed lacks is left out."""
    each = [o.also | {"bleu": o.bleu} for o in done if o.bleu is not None]
    rouge = ROUGE if row.spec is not None and row.spec.score.metric == "rouge" else ()
    wanted = {name: [name] for name in (*rouge, *row.also)} | row.means
    found = {}
    for name, parts in wanted.items():
        if all(part in one for one in each for part in parts):
            found[name] = statistics.fmean(one[part] for one in each for part in parts)
    return found


def against(ours: Ours, base: Ours | None, alike: bool) -> Ours:
    """Adds the differences from the base row, if both have figures. alike: whether both have the same test set."""
    if base is None or base.score is None or ours.score is None:
        return ours
    added = None if ours.params is None or base.params is None else ours.params - base.params
    delta = ours.score - base.score if alike and ours.signature == base.signature else None
    return replace(ours, params_added=added, delta=delta)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


FOLDER = "speed"


def ratios(ledger: Ledger, keys: Mapping[str, Iterable[Keys]], base: str) -> tuple[dict[str, dict[str, float]], dict[str, Any] | None]:
    """Returns {row: speeds relative to row `base`} and the measurement they come from, ({}, None) without one.

    keys: of each row, of any seed. Prefers the measurement with the most of these rows, then with the most speeds, then the latest.
    """
    found = [(own, document) for document in ledger.documents(FOLDER) if (own := _ratios(document, keys, base))]
    found.sort(key=lambda each: (len(each[0]), sum(map(len, each[0].values())), str(each[1].get("measured", ""))))
    return found[-1] if found else ({}, None)


def _ratios(document: dict[str, Any], keys: Mapping[str, Iterable[Keys]], base: str) -> dict[str, dict[str, float]]:
    rows = {row["train_key"]: row for row in document["rows"] if row["train_key"] is not None}
    found = {row_id: (rows[own.train], own.decode) for row_id, known in keys.items() for own in known if own.train in rows}
    measured = {  # the speed of another search is not the row's
        row_id: {name: row.get(name) for name in SPEEDS if name != "decode_speed" or row.get("decode_key") == search}
        for row_id, (row, search) in found.items()
    }
    if base not in measured:
        return {}
    return {
        row_id: {name: ratio for name in SPEEDS if (ratio := ratio_of(row.get(name), measured[base].get(name))) is not None}
        for row_id, row in measured.items()
    }


def ratio_of(rates: Sequence[float] | None, base: Sequence[float] | None) -> float | None:
    """Median over rounds of the ratio of two rates, so that a temporary slowdown affects both. None for lists that do not match."""
    if not rates or not base or len(rates) != len(base) or min(*rates, *base) <= 0:
        return None
    return statistics.median(own / other for own, other in zip(rates, base, strict=True))
