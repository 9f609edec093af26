"""What a reader of a table must know: the scale, in what rows differ that should be alike, what marks mean, notes of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.data.usual import unusual
from orchestrator.ledger.provenance import differences
from orchestrator.report.figures import short_id
from orchestrator.report.find import Outcome
from orchestrator.specs.row import Row


def notes(
    rows: Sequence[Row],
    outcomes: Mapping[str, Sequence[Outcome]],
    ours: Mapping[str, dict[str, Any] | None],
    scale: str,
    base: str | None,
    measured: Mapping[str, Any] | None,
) -> list[str]:
    """Lines of text, without a line feed. `measured`: the speed measurement of RESULTS/speed, if one was found."""
    found = [f"ours: {scale}; not comparable with the paper's numbers"] if scale else []
    found += _data(ours) if scale else []
    found += _texts(rows, outcomes)
    found += _seeds(ours)
    found += _differences([o for row in rows for o in outcomes[row.id] if o.status == "done"])
    tested = [one["significance"] for one in ours.values() if one is not None and "significance" in one]
    if tested:
        from orchestrator.report.marks import explained

        found.append(explained(tested))
    if any(one is not None and one.get("bleu_spread") is not None for one in ours.values()):
        found.append("spread: sample standard deviation of BLEU over seeds")
    found += _speed(rows, base, measured)
    return found + [f"{short_id(row.id)}: {row.note}" for row in rows if row.note and row.kind == "run"]


def _data(ours: Mapping[str, dict[str, Any] | None]) -> list[str]:
    """Corpus and updates of the rows that ran, where they are alike."""
    done = [one for one in ours.values() if one is not None and one.get("steps")]
    corpora = sorted({str(one["data"]) for one in done})
    steps = sorted({step for one in done for step in one["steps"]})
    if not done:
        return []
    span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    return [f"ours: trained on {', '.join(corpora)}, {span} updates a row"]


def _texts(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """Where a row was trained or scored on another text than the catalogue expects under its corpus's name."""
    each = [(row.spec.data.corpus, o.text) for row in rows if row.spec is not None for o in outcomes[row.id] if o.text]
    distinct = {(corpus, repr(text)): (corpus, text) for corpus, text in each}
    return list(dict.fromkeys(line for corpus, text in distinct.values() for line in unusual(corpus, text)))


def _seeds(ours: Mapping[str, dict[str, Any] | None]) -> list[str]:
    """Means over different seeds are compared with care."""
    done = {row_id: one["seeds"] for row_id, one in ours.items() if one is not None and "bleu" in one}
    if len({tuple(seeds) for seeds in done.values()}) < 2:
        return []
    return ["rows have different seeds: a delta between their means is also one between seeds"]


def _differences(done: Sequence[Outcome]) -> list[str]:
    """Code, lock, libraries, device, signature."""
    capsules = [{k: v for k, v in o.capsule.items() if k not in ("key", "digest")} for o in done if o.capsule is not None]
    differ = differences(capsules)
    lines = [f"rows come from different environments: {', '.join(differ)} differ"] if differ else []
    signatures = sorted({str(o.signature) for o in done})
    return lines + ([f"rows are scored differently: {'; '.join(signatures)}"] if len(signatures) > 1 else [])


def _speed(rows: Sequence[Row], base: str | None, measured: Mapping[str, Any] | None) -> list[str]:
    reported = any({"train_speed", "decode_speed"} & row.expect.keys() for row in rows)
    if base is None or (measured is None and not reported):
        return []
    short = short_id(base)
    if measured is None:
        return [f"speeds: relative to {short}; ours are not measured (nmt-ablate analyse --kind speed)"]
    how = [f"{measured[name]} {name}" for name in ("rounds", "steps", "sentences") if name in measured]
    where = [str(measured[name]) for name in ("device",) if measured.get(name)]
    return [f"speeds: relative to {short}; ours measured in one run, rows in turns ({', '.join([*how, *where])})"]
