"""Notes below a table: its scale, differences between its rows, the meaning of marks, doubts, and notes of the table's file."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orchestrator.data.expected_text import WORDS, unexpected
from orchestrator.data.oddities import leaks
from orchestrator.ledger import component_sources, sweep_files
from orchestrator.ledger.provenance import differences
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import owner
from orchestrator.report.effects import Effect
from orchestrator.report.figures import Ours
from orchestrator.report.find import Finder, SeedResult
from orchestrator.report.judgement import Judgement, OfRow
from orchestrator.report.looks import confidence
from orchestrator.safe_text import log
from orchestrator.specs.claims import Claim
from orchestrator.specs.row import Row, short_id
from orchestrator.specs.sweep import UNITS
from orchestrator.specs.table import SCORED, number

VERDICTS = "; verdicts: docs/verdicts.md"
"""End of notes on statistics; a paper leaves it out."""
ENVIRONMENTS = "rows come from different environments"
"""Start of a note that a paper leaves out."""


def notes(
    rows: Sequence[Row],
    outcomes: Mapping[str, Sequence[SeedResult]],
    ours: Mapping[str, Ours | None],
    judged: Mapping[str, OfRow],
    claims: Sequence[Judgement],
    scale: str,
    base: str | None,
    measured: Mapping[str, Any] | None,
) -> list[str]:
    """Returns one line of text per note. `measured`: the speed measurement of RESULTS/speed, if there is one."""
    paper = "; not comparable with the paper's numbers" if any(row.expect for row in rows) else ""
    found = [f"ours: {scale}{paper}"] if scale else []
    done = [(short_id(row.id), o) for row in rows for o in outcomes[row.id] if o.status == "done"]
    signatures = grouped((name, o.signature) for name, o in done if o.signature)  # rows with different ones are not compared
    found += [f"signature: {signatures}"] if signatures else []
    found += _texts(rows, outcomes)
    if len({tuple(one.seeds) for one in ours.values() if one is not None and one.bleu is not None}) > 1:
        found.append("rows have different seeds: a part of a difference may come from the seeds")
    found += _differences([o for _, o in done])
    found += _effects([each.own for each in judged.values() if each.own is not None], [one for one in claims if not one.own])
    found += _speed(rows, base, measured)
    return found + [f"{short_id(row.id)}: {row.note}" for row in rows if row.note and row.kind in SCORED]


def claim_note(one: Judgement) -> str:
    """Returns a note on a claim about another comparison than a row and the row it starts from."""
    metric = "" if one.metric == "bleu" else f" in {one.metric}"
    claimed = f"claimed {one.claimed_effect}, " if one.claimed_effect else ""
    return f"{_compared(one)}{metric}: {claimed}ours {one.plain}"


def _compared(one: Judgement) -> str:
    row = short_id(one.claim.row)
    return row if one.own else f"{row} against {short_id(str(one.claim.against))}"


def grouped(named: Iterable[tuple[str, str]]) -> str:
    """Returns each value with the names that have it, `1-5: row1, row4; 1-3: row3`; a value that all have, alone."""
    found: dict[str, dict[str, None]] = {}
    for name, value in named:
        found.setdefault(value, {})[name] = None
    return "; ".join(value if len(found) == 1 else f"{value}: {', '.join(names)}" for value, names in found.items())


def _texts(rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]]) -> list[str]:
    """Texts that differ from what the catalogue expects, corpora with several training texts, and validation or test sentences in them."""
    each = [(row.spec.data.corpus, o.text) for row in rows if row.spec is not None for o in outcomes[row.id] if o.text]
    distinct = {(corpus, repr(text)): (corpus, text) for corpus, text in each}
    texts = {(corpus, repr(sums["train"])) for corpus, text in distinct.values() if "train" in (sums := text.get("sha256") or {})}
    named = sorted(corpus for corpus, _ in texts)
    mixed = [f"{corpus}: runs on different training texts are mixed" for corpus in named if named.count(corpus) > 1]
    lines = list[str]()
    for corpus, text in distinct.values():
        used = {split: found for split, found in text.get("leaked", {}).items() if split in text["pairs"]}
        lines += [*unexpected(corpus, text), *leaks(corpus, used)]
    return list(dict.fromkeys([*mixed, *lines]))


def _differences(done: Sequence[SeedResult]) -> list[str]:
    """Differences in code, lock file, libraries or device between the rows, and runs of which these are unknown."""
    capsules = [{k: v for k, v in o.capsule.items() if k not in ("key", "digest")} for o in done if o.capsule is not None]
    differ = differences(capsules)
    lines = [f"{ENVIRONMENTS}: {', '.join(differ)} differ"] if differ else []
    if unknown := [o for o in done if o.capsule is None and o.steps]:
        lines.append(f"what trained {len(unknown)} of {len(done)} runs is unknown, for their capsule.json is missing or damaged")
    return lines


def _effects(judged: Sequence[Judgement], others: Sequence[Judgement]) -> list[str]:
    """Returns notes on the meaning of the intervals and on the spread over seeds. others: claims that only the notes show."""
    effects = [one.effect for one in judged if one.effect is not None]
    tested = [one for one in judged if one.effect is not None and one.effect.difference is not None]
    lines = []
    if tested:
        family = max(one.family for one in tested)
        shown = [*tested, *(one for one in others if one.effect is not None and one.effect.difference is not None)]
        levels = grouped((_compared(one), confidence(one.look, one.level)) for one in shown)
        lines.append(
            f"±: standard deviation over seeds ({_spreads(effects)}). (.. to ..): interval over other seeds and other sentences, "
            f"{levels}. p-values are adjusted for {family} claim{'s' if family > 1 else ''} on BLEU and nll (Holm){VERDICTS}"
        )
    if adjusted := [short_id(effect.row) for effect in effects if abs(effect.adjustment) >= 0.005]:
        what = "deltas are adjusted for the kinds of device, so they differ from the difference of the printed means"
        lines.append(f"{what}: {', '.join(adjusted)}{VERDICTS}")
    if len(tested) < len(effects):
        lines.append("one seed: no interval and no verdict; give two or more seeds")
    return lines


def _spreads(effects: Sequence[Effect]) -> str:
    """Returns the standard deviations over seeds, each moderated by the other rows of ours."""
    spreads = [effect.difference.spread for effect in effects if effect.difference is not None]
    low, high = min(spread.sd for spread in spreads), max(spread.sd for spread in spreads)
    several = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    return several + (f" if moderated over {rows} rows" if (rows := max(spread.groups for spread in spreads)) > 1 else "")


def _speed(rows: Sequence[Row], base: str | None, measured: Mapping[str, Any] | None) -> list[str]:
    reported = any({"train_speed", "decode_speed"} & row.expect.keys() for row in rows)
    if base is None or (measured is None and not reported):
        return []
    short = short_id(base)
    if measured is None:
        return [f"speeds: relative to {short}; ours are not measured (nmt-ablate analyse --kind speed)"]
    how = [f"{measured[name]} {name}" for name in ("rounds", "steps", "sentences") if name in measured]
    how += [f"decoded in batches of {measured['batch']}"] if measured.get("batch") else []
    how += ["outputs forced to the source's length"] if measured.get("forced_length") else []
    how += [str(measured["device"])] if measured.get("device") else []
    return [f"speeds: relative to {short}; ours measured in one run, rows in turns ({', '.join(how)})"]


def lost_claims(ledger: Ledger, address: str, claims: Sequence[Claim], hidden: Container[str]) -> list[str]:
    """Returns a line for each claim on the table that a sweep recorded and that its file no longer has.

    claims: of the file. hidden: rows of the file that are not shown; their claims are left out.
    """
    now = [claim.model_dump(mode="json") for claim in claims]
    every = [one["claim"] for one in sweep_files.recorded_claims((ledger.root, *ledger.mirrors), address)]
    lost = [claim for claim in every if claim not in now and claim["row"] not in hidden]
    words = [", ".join([claim["row"], *(f"{k} {v}" for k, v in claim.items() if k != "row" and v is not None)]) for claim in lost]
    return [f"a sweep recorded a claim that the file no longer has: {line}" for line in dict.fromkeys(words)]


def of_seeds(rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]], finder: Finder) -> list[str]:
    """Returns notes on seeds with the weights of another one, on counts that a row's seeds must share, and on seeds without a result."""
    lines, lacking = [], dict[str, str]()
    for row in (row for row in rows if outcomes[row.id]):
        name, found = short_id(row.id), outcomes[row.id]
        lines += [f"{name}: seed {o.seed} {o.reason}" for o in found if o.status == "repeated"]
        differing = {what: sorted(each) for what, each in _counts(found).items() if len(each) > 1}
        lines += [f"seeds of {name} have different numbers of {what}: {', '.join(map(str, each))}" for what, each in differing.items()]
        others = finder.without(finder.left_out | {o.seed for o in found}).seeds(row)
        lacking |= {f"{name} {seed}": str(keys.train) for seed, keys in others.items()}
    missing = [] if not lacking else _not_running(lacking, finder.ledger)
    return [*lines, *([f"asked for by a sweep, without a result: {', '.join(missing)}"] if missing else [])]


def _not_running(runs: Mapping[str, str], ledger: Ledger) -> list[str]:
    """Returns the names of runs that no live process trains or drives. runs: name -> train key."""
    sweeps = [sweep_files.read_sweeps(root) for root in (ledger.root, *ledger.mirrors)]
    held = {key for key in runs.values() if any(each.driver(key) for each in sweeps) or owner(ledger.run_dir(key) / "lock")}
    return [name for name, key in runs.items() if key not in held]


def _counts(found: Sequence[SeedResult]) -> dict[str, set[int]]:
    """Returns the numbers of parameters and of pairs that the finished seeds of a row have. All seeds should have the same ones."""
    counts: dict[str, set[int]] = defaultdict(set)
    for o in (o for o in found if o.status == "done"):
        pairs = {WORDS.get(split, f"pairs of {split}"): count for split, count in (o.text.get("pairs") or {}).items()}
        for what, count in ({"parameters": o.params} | pairs).items():
            counts[what] |= set() if count is None else {count}
    return counts


def metric_doubts(rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]], finder: Finder) -> list[str]:
    """Returns a line per doubt whether a metric suits its references, from the score records."""
    rows_of: dict[str, list[str]] = {}
    for row in rows:
        done = next((o for o in outcomes[row.id] if o.status == "done"), None)
        for line in () if done is None else (finder.score(done.keys) or {}).get("doubts", ()):
            rows_of.setdefault(str(line), []).append(short_id(row.id))
    return [f"{', '.join(names)}: {line}" for line, names in rows_of.items()]


def length_penalties(rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]], finder: Finder) -> list[str]:
    """Returns a line if tuned exponents of the length penalty are their smallest or largest candidates: a better one may lie beyond."""
    done = [o.keys for row in rows for o in outcomes[row.id] if o.status == "done" and o.keys.tune is not None]
    tuned = [record for keys in done if (record := finder.ledger.record(str(keys.train), "tune", str(keys.tune))) is not None]
    tried = [(record["alpha"], [each["alpha"] for each in record.get("candidates", ())]) for record in tuned]
    lines = []
    for which, end, outputs in (("smallest", min, "long"), ("largest", max, "short")):
        if at := [alpha for alpha, others in tried if len(others) > 1 and alpha == end(others)]:
            values = " or ".join(f"{value:g}" for value in sorted(set(at)))
            text = f"length penalty: in {len(at)} of {len(tried)} runs the tuned exponent is the {which} candidate ({values})"
            lines.append(f"{text}. Outputs may be too {outputs}: add candidates to decode.length_penalty")
    return lines


def parameter_differences(rows: Sequence[Row], finder: Finder, start: dict[str, str], whole: Sequence[Row]) -> list[str]:
    """A line for each row whose reported parameters, or their difference from row `start[id]` of `whole`, differ from the counted ones.

    A difference of one unit of the last printed digit is accepted, because papers round and truncate (10,977,824 is printed 10.97M). Rows
    whose vocabulary sizes are unknown are left out.
    """
    asked = [row for row in rows if row.kind == "run" and {"params", "params_added"} & row.expect.keys()]
    bases = {start.get(row.id) for row in asked}
    counted = {row.id: finder.data.params(row.run_spec) for row in (*asked, *(row for row in whole if row.id in bases))}
    lines = []
    for row in rows:
        ours = counted.get(row.id)
        base = counted.get(start.get(row.id, ""))
        for name, value in (("params", ours), ("params_added", None if ours is None or base is None else ours - base)):
            reported = row.expect.get(name)
            if value is not None and reported is not None and abs(value - (number(reported) or 0.0)) > unit(reported):
                lines.append(f"{short_id(row.id)}: {name.replace('_', ' ')} reported as {reported}, counted {value:,}")
    return lines


def unit(reported: Any) -> float:
    """Value of the last printed digit: 88.0M -> 100,000; 11,000,000 -> 1."""
    if not isinstance(reported, str):
        return 1.0
    digits = reported.rstrip("".join(UNITS))
    return float(10.0 ** -len(digits.partition(".")[2])) * UNITS.get(reported[-1], 1.0)


def changed_since_training(
    rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]], finder: Finder, seeds: Iterable[int]
) -> dict[tuple[str, int], list[str]]:
    """(row, seed) -> components changed since its training (see `ledger.component_sources`), for rows and the rows they start from."""
    found = dict(outcomes)
    for row in rows:
        while (row := row.parent) is not None and row.id not in found:  # type: ignore[assignment]
            found[row.id] = finder.outcomes(row, seeds)
    return {(row_id, o.seed): list(o.changed) for row_id, each in found.items() for o in each if o.changed}


def warn_of_changes(
    rows: Sequence[Row], outcomes: Mapping[str, Sequence[SeedResult]], finder: Finder, seeds: Iterable[int], given: str
) -> None:
    """Logs the warnings of `changed_since_training`. given: options that the rows need on a command line."""
    log(*(f"warning: {line}" for line in component_sources.warnings(changed_since_training(rows, outcomes, finder, seeds), given)))


def shipped_note(ledger: Ledger, rows: Mapping[str, Sequence[str]], total: int) -> list[str]:
    """A note that names the shipped rows and when they were trained; none without any. total: rows that have results."""
    if not rows:
        return []
    ends = [report["t"] for keys in rows.values() for key in keys for report in ledger.history(key)[-1:] if "t" in report]
    days = sorted({datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d") for end in ends})
    when = f", trained {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    which = "all figures of ours" if len(rows) == total else ", ".join(short_id(row) for row in rows)
    return [f"shipped with the product, not run here: {which}{when}"]
