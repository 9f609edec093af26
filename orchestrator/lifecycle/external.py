"""Translations that another system made of a row's test set: read from a file, checked, scored as ours are, and kept in the ledger."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.data.corpus import content_of, read_lines
from orchestrator.data.pieces import MARKS
from orchestrator.data.prepare import prepare
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from orchestrator.specs.positions import display, shown
from orchestrator.specs.row import Row
from orchestrator.specs.text_form import normalised
from orchestrator.sweeps.metric_compatibility import metric_warnings
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data, keys_for

COLUMNS = ["hypothesis", "seed"]


def read(file: Path, seed: int | None) -> dict[int, list[str]]:
    """Seed -> its translations, a line a sentence. Two columns with a header, `seed` and `hypothesis`, hold several seeds.

    Raises UserError for another encoding, other columns, a text without words and subword marks, and unless a file of plain text comes
    with a seed, and one of two columns without.
    """
    name, lines = display(file), read_lines(file)
    header = lines[0].split("\t") if lines else []
    found: dict[int, list[str]] = {}
    if sorted(header) == COLUMNS:
        if seed is not None:
            raise UserError(f"{name}:1: found a column seed; expected no --seed with it")
        for number, line in enumerate(lines[1:], 2):
            cells = dict(zip(header, line.split("\t"), strict=False))
            if line.count("\t") != 1 or not re.fullmatch("[0-9]{1,9}", cells["seed"]):
                raise UserError(f"{name}:{number}: found '{shown(line, 60)}'; expected a {' and a '.join(header)} with a tab between")
            found.setdefault(int(cells["seed"]), []).append(cells["hypothesis"])
    elif seed is None:
        raise UserError(f"{name}: found plain text; expected --seed N, or a header line with the columns seed and hypothesis")
    else:
        found[seed] = lines
    for number, line in enumerate(lines, 1):
        if mark := next(filter(None, (each.search(line) for each in MARKS.values())), None):
            raise UserError(f"{name}:{number}: found the subword mark '{mark[0].strip()}'; expected words, joined as in running text")
    if not found or any(not "".join(each).strip() for each in found.values()):
        raise UserError(f"{name}: found no text; expected one translation a line")
    return found


def add(file: Path, texts: Mapping[int, Sequence[str]], row: Row, options: RowOptions, about: Mapping[str, str]) -> list[dict[str, Any]]:
    """Scores the texts of `read` and keeps them. Returns {"id", "seed", "status", "bleu", "signature", "chrf"} of each seed.

    status: `added`, or `known` where the ledger has these translations. about: {"system", "note"}. Other translations than those of a
    seed are refused.
    """
    if row.kind != "external" or row.spec is None:
        raise UserError(f"{row.source_file}:{row.line}: {row.id}: found a row of kind {row.kind}; expected one of kind external")
    prepared, test, name = prepare(row.spec.data, options.data_dir, options.cache_dir), row.spec.score.test, display(file)
    expected = len(prepared.references(test)[0])
    if wrong := next(((seed, len(each)) for seed, each in texts.items() if len(each) != expected), None):
        raise UserError(
            f"{name}: found {wrong[1]} translations with seed {wrong[0]}; expected {expected}, as test set {test} has sentences"
        )
    ledger, data, found = Ledger(options.results), Data(options.data_dir, options.cache_dir), []
    sha256, _ = content_of(file)
    texts = {seed: normalised(each, prepared.normal_form) for seed, each in texts.items()}
    sums = {seed: hashlib.sha256("\n".join(each).encode()).hexdigest() for seed, each in texts.items()}
    keys = {seed: keys_for(row.at(seed), data) for seed in texts}
    known = {seed: (ledger.read_train(str(keys[seed].train)) or {}).get("external") for seed in texts}
    for seed, each in known.items():
        if each is not None and each["translations"] != sums[seed]:
            run = display(ledger.run_dir(str(keys[seed].train)))
            raise UserError(f"{name}: {row.id} seed {seed} has other translations, of {each['file']}; remove {run} to replace them")
    for seed, hypotheses in texts.items():
        train, decode, scored = keys[seed].train, keys[seed].decode, keys[seed].score
        assert train is not None and decode is not None and scored is not None
        record = ledger.read_score(train, scored)
        status = "known" if record is not None and known[seed] is not None else "added"
        if record is None or known[seed] is None:
            tokens = prepared.tokenise_text(list(hypotheses), "tgt")
            record = score(hypotheses, tokens, prepared, test, row.spec.score) | {"decode_key": decode}
            record |= {"doubts": doubts} if (doubts := metric_warnings(prepared, row.spec.data, row.spec.score)) else {}
            record["score"] = row.spec.score.model_dump(exclude_none=True)
            record["statistics"] = packed(of_translation(hypotheses, tokens, prepared, test, row.spec.score))
            origin = {"file": file.name, "sha256": sha256, "translations": sums[seed], **about}
            place = {"id": row.id, "seed": seed, "kind": row.kind, "score": row.spec.score.model_dump(), "keys": keys[seed].as_dict()}
            with RunLock(ledger.run_dir(train) / "lock") as lock:
                own = Ledger(ledger.root, lock=lock)
                own.write_spec(train, place)
                own.write_decode(train, decode, {"tokens": tokens}, hypotheses)
                own.write_score(train, scored, record)
                own.write_train(train, {"status": "done", "external": origin})
        found.append({"id": row.id, "seed": seed, "status": status, "bleu": record["bleu"], "signature": record["signature"]})
        found[-1]["chrf"] = record["chrf"]["score"]
    return found
