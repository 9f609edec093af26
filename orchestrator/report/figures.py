"""Measured figures of one row: over its seeds, and relative to the row it is compared with. They are rounded only where they are shown.

Speeds: `nmt-ablate analyse --kind speed` writes RESULTS/speed/KEY16.json; rows of one file ran together and are comparable.

    {"measured": "2026-01-31T12:00:00", "rows": [{"id", "train_key", "train_speed": [updates/s of each round], "decode_speed": [..]}, ..]}
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.files.listed import mapped
from orchestrator.ledger.results import Ledger
from orchestrator.report.find import SeedResult
from orchestrator.scoring.rouge import FIGURES as ROUGE
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.specs.row import Row, short_id  # noqa: F401 (short_id for those that import it from here)

OURS = mapped(__file__, "columns.txt")
"""Measured columns in their order, with their heads, besides the row's `also` and `means`.

bleu: mean over seeds (bleu_spread: their standard deviation, null for one seed); delta: to the strongest control (against), with its
interval; nll, chrf_delta: the same of the references' nll and of chrF; parts: what precisions and lengths add to delta;
controls: the other controls; pareto: see `front`;
train_speed, decode_speed: ratios to the baseline, measured in one run;
tokens_per_second, sentences_per_second: rates of the runs themselves, which are not comparable.
"""


def figures(row: Row, found: Sequence[SeedResult]) -> dict[str, Any] | None:
    """Means over the finished seeds, or None without a record.

    Without a finished seed only status and reason, and the parameters if the row failed by its own rule.
    """
    if not found:
        return None
    done = [o for o in found if o.status == "done" and o.bleu is not None]
    if not done:
        first = found[0]
        reason = status(first.status, first.reason, first.steps)
        known: dict[str, Any] = {"status": first.status, "reason": reason, "seeds": [o.seed for o in found]}
        if first.stated:
            known |= {"failed_as_stated": True, "params": first.params, "steps": [o.steps for o in found], "data": _corpus(row)}
        return known
    bleus, seeds = [o.bleu for o in done if o.bleu is not None], {o.seed for o in done}
    ours = {
        "status": "done",
        "seeds": [o.seed for o in done],
        "params": done[0].params,
        "bleu": statistics.fmean(bleus),
        "bleu_spread": statistics.stdev(bleus) if len(bleus) > 1 else None,
        "chrf": _mean(o.chrf for o in done),
        "tokens_per_second": _mean(o.tokens_per_second for o in done),
        "sentences_per_second": _mean(o.sentences_per_second for o in done),
        "data": _corpus(row),
        "steps": [o.steps for o in done if row.kind == "run"],
        "signature": done[0].signature,
        "unfinished": {str(o.seed): status(o.status, o.reason, o.steps) for o in found if o.seed not in seeds},
    }
    systems = ", ".join(dict.fromkeys(o.system for o in done if o.system))
    return _others(row, done) | ours | ({"system": systems} if systems else {})


def _corpus(row: Row) -> str | None:
    return None if row.spec is None else str(row.spec.data.corpus)


def _others(row: Row, done: Sequence[SeedResult]) -> dict[str, Any]:
    """Other scorings of the row and means of scores. A figure missing for any seed is left out."""
    each = [o.also | {"bleu": o.bleu} for o in done if o.bleu is not None]
    rouge = ROUGE if row.spec is not None and row.spec.score.metric == "rouge" else ()
    wanted = {name: [name] for name in (*rouge, *row.also)} | row.means
    found = {}
    for name, parts in wanted.items():
        if all(part in one for one in each for part in parts):
            found[name] = statistics.fmean(one[part] for one in each for part in parts)
    return found


def against(ours: dict[str, Any], base: Mapping[str, Any] | None) -> dict[str, Any]:
    """Adds the differences from the base row, if both have figures."""
    if base is None or "bleu" not in base or "bleu" not in ours:
        return ours
    added = None if ours["params"] is None or base["params"] is None else ours["params"] - base["params"]
    figure = PRINCIPAL if PRINCIPAL in ours and PRINCIPAL in base else "bleu"
    return ours | {"params_added": added, "delta": ours[figure] - base[figure]}


def status(name: str, reason: str, steps: int) -> str:
    """Status in words: `stopped by ASHA at step 400`, `diverged: ...`, `done`."""
    if name == "stopped":
        return reason if reason.startswith("stopped") else f"stopped at step {steps}"
    return f"{name}: {reason}" if reason and name != "done" else name


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


def front(ours: Mapping[str, Mapping[str, Any] | None]) -> dict[str, bool]:
    """Row -> whether it is on the Pareto front of BLEU (ROUGE-L), parameters and measured training speed; of rows with figures.

    A row is off the front if another has at least its score, at most its parameters, at least its speed, and is better in one of them.
    Speed counts if it was measured for all of these rows (`analyse --kind speed`). Empty with less than two rows.
    """
    found = {row: one for row, one in ours.items() if one is not None and one.get("bleu") is not None and one.get("params") is not None}
    timed = all(one.get("train_speed") is not None for one in found.values())
    points = {row: (one.get(PRINCIPAL, one["bleu"]), -one["params"], one["train_speed"] if timed else 0.0) for row, one in found.items()}
    if len(points) < 2:
        return {}
    return dict(zip(points, unbeaten(list(points.values())), strict=True))


def unbeaten(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Whether each point is on the front: no other is at least as high in every number and higher in one."""
    beats = lambda one, other: one != other and all(a >= b for a, b in zip(one, other, strict=True))  # noqa: E731
    return [not any(beats(other, point) for other in points) for point in points]


FOLDER = "speed"
SPEEDS = ("train_speed", "decode_speed")
"""Columns of speeds; a ratio above 1 is faster than the baseline."""


def ratios(ledger: Ledger, keys: Mapping[str, Collection[str]], base: str) -> tuple[dict[str, dict[str, float]], dict[str, Any] | None]:
    """Returns {row: speeds relative to row `base`} and the measurement they come from, ({}, None) without one.

    keys: train keys of each row, of any seed. Prefers the measurement with the most of these rows, then the latest.
    """
    best: tuple[int, str, dict[str, dict[str, float]], dict[str, Any]] | None = None
    for document in ledger.documents(FOLDER):
        found = _ratios(document, keys, base)
        rank = (len(found), str(document.get("measured", "")))
        if found and (best is None or rank > best[:2]):
            best = (*rank, found, document)
    return ({}, None) if best is None else best[2:]


def _ratios(document: dict[str, Any], keys: Mapping[str, Collection[str]], base: str) -> dict[str, dict[str, float]]:
    rows = {str(row["train_key"]): row for row in document["rows"]}
    measured = {row_id: rows[key] for row_id, known in keys.items() for key in sorted(known) if key in rows}
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
