"""Translations that another system made of a row's test set: read from a file, checked, scored as ours are, and kept in the ledger."""

import hashlib
from pathlib import Path
from typing import Any

from orchestrator.data.corpus import content_of, read_lines
from orchestrator.data.expected_text import mismatch, of_prepared
from orchestrator.data.prepare import prepare
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.report.find import Finder
from orchestrator.safe_text import log
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from orchestrator.specs.positions import display
from orchestrator.specs.row import Row
from orchestrator.specs.text_form import MARKS, RAW, normalised
from orchestrator.sweeps.metric_compatibility import metric_warnings
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data, keys_for


def read(file: Path) -> list[str]:
    """The translations in a file, a line a sentence. Raises UserError for another encoding, no text, and subword marks."""
    name, lines = display(file), read_lines(file)
    for number, line in enumerate(lines, 1):
        if mark := next(filter(None, (each.search(line) for each in MARKS.values())), None):
            raise UserError(f"{name}:{number}: found the subword mark '{mark[0].strip()}'; expected words, joined as in running text")
    if not "".join(lines).strip():
        raise UserError(f"{name}: found no text; expected one translation a line")
    return lines


def add(file: Path, row: Row, options: RowOptions, system: str) -> dict[str, Any]:
    """Scores the translations in a file for an external row. Returns {"id", "seed", "status", "bleu", "signature", "chrf"}.

    status: `added`, or `known` if the ledger has them; a new `system` is stored. Other translations than the row's seed has are refused.
    """
    spec = row.run_spec
    hypotheses, name, seed, test = read(file), display(file), spec.seed, spec.score.test
    prepared = prepare(spec.data, options.data_dir, options.cache_dir)
    if len(hypotheses) != (expected := len(prepared.references(test)[0])):
        raise UserError(f"{name}: found {len(hypotheses)} translations; expected {expected}, as test set {test} has sentences")
    ledger, keys = Ledger(options.results), keys_for(row, Data(options.data_dir, options.cache_dir))
    assert keys.train is not None and keys.decode is not None and keys.score is not None
    hypotheses = normalised(hypotheses, prepared.normal_form)
    if hypotheses == list(prepared.sources(test)):
        log(f"warning: {name}: is the source text of test set {test}")
    if not prepared.documents and (form := mismatch(hypotheses, RAW)):  # raw news highlights end in ` .`
        log(f"warning: {name}: {form}; expected running text")
    translations = hashlib.sha256("\n".join(hypotheses).encode()).hexdigest()
    known = (ledger.read_train(keys.train) or {}).get("external")
    if known is not None and known["translations"] != translations:
        run = display(ledger.run_dir(keys.train))
        raise UserError(f"{name}: {row.id} seed {seed} has other translations, of {known['file']}; remove {run} to replace them")
    for other, its in Finder(ledger, Data(options.data_dir, options.cache_dir)).seeds(row).items():
        if other != seed and ((ledger.read_train(str(its.train)) or {}).get("external") or {}).get("translations") == translations:
            raise UserError(f"{name}: found the translations of seed {other} of {row.id}; expected those of another training")
    record = None if known is None else ledger.record(keys.train, "score", keys.score)
    status = "added" if record is None else "known"
    if record is None:
        tokens = prepared.tokenise_text(hypotheses, "tgt")
        record = score(hypotheses, tokens, prepared, test, spec.score) | {"decode_key": keys.decode}
        record |= {"doubts": doubts} if (doubts := metric_warnings(prepared, spec.data, spec.score)) else {}
        record["text"] = of_prepared(prepared, [test])
        record["score"] = spec.score.model_dump(exclude_none=True)
        record["statistics"] = packed(of_translation(hypotheses, tokens, prepared, test, spec.score))
        origin = {"file": file.name, "sha256": content_of(file)[0], "translations": translations, "system": system}
        place = {"id": row.id, "seed": seed, "kind": row.kind, "score": spec.score.model_dump(), "keys": keys.as_dict()}
        with RunLock(ledger.run_dir(keys.train) / "lock") as lock:
            own = Ledger(ledger.root, lock=lock)
            own.write_spec(keys.train, place)
            own.write_decode(keys.train, keys.decode, {"tokens": tokens}, hypotheses)
            own.write_record(keys.train, "score", keys.score, record)
            own.write_train(keys.train, {"status": "done", "external": origin})
    elif known is not None and system not in ("", known["system"]):
        with RunLock(ledger.run_dir(keys.train) / "lock") as lock:
            Ledger(ledger.root, lock=lock).write_train(keys.train, {"status": "done", "external": known | {"system": system}})
    found = {"id": row.id, "seed": seed, "status": status, "bleu": record["bleu"], "signature": record["signature"]}
    return found | {"chrf": record["chrf"]["score"]}
