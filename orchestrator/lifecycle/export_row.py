"""Exports a trained row as a self-contained folder with weights, vocabulary, config, capsule, model card and translation script:

FOLDER/translate.py  README.md  SHA256SUMS  config.json  row.yaml  capsule.json  model.safetensors  {joint|src|tgt}.vocab
       models/  translator/     (copies of the code; `translator` holds the modules of the orchestrator needed for translation)
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import models
from orchestrator.data.prepare import Prepared
from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.listed import listed
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.weights import pack, weights_sha256
from orchestrator.lifecycle.translator import config
from orchestrator.paths import ROOT
from orchestrator.safe_text import markdown
from orchestrator.scoring.rouge import ROUGE
from orchestrator.specs.row import Row
from orchestrator.specs.show import to_yaml
from orchestrator.sweeps.task import Task

CODE = listed(__file__, "exported_modules.txt")
"""Modules of `orchestrator/` copied into `translator/`."""
SCHEMA = '''"""Names of annotations. `loader.Translator` gives the options as attributes."""

DecodeSpec = LengthPenalty = object
'''
SCRIPT = Path(__file__).with_name("translate.txt")
"""The translation script."""
TITLES = {"bleu": "BLEU", "chrf": "chrF", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


@dataclass(frozen=True)
class Exported:
    """An exported folder. files: name -> size in bytes."""

    files: dict[str, int]
    weights_sha256: str
    metadata: dict[str, Any]


def export_row(row: Row, task: Task, prepared: Prepared, ledger: Ledger, folder: Path) -> Exported:
    """Writes the folder atomically. Raises UserError if the row is not trained or its weights are absent."""
    record = ledger.read_train(task.train_key)
    if record is None or record["status"] != "done":
        raise UserError(f"{task.name}: its run is {record['status'] if record else 'not in the results'}; expected one that is done")
    weights = Store(task.run_dir, task.train_key).weights(task.spec.decode.checkpoint)
    metadata = _metadata(row, task, prepared, ledger, record)
    with atomic.replacing(folder) as tmp:
        tmp.mkdir()
        _write(tmp / "model.safetensors", pack(weights))
        for name in prepared.config["vocabularies"]:
            for path in prepared.vocabulary(name):
                _write(tmp / path.name, path.read_bytes())
        _copy_code(tmp)
        about = config(task, prepared, ledger) | {"sha256": _sums(tmp.iterdir(), tmp), "weights_sha256": weights_sha256(weights)}
        _write(tmp / "config.json", _json(about))
        _write(tmp / "capsule.json", _json(metadata["capsule"]))
        _write(tmp / "row.yaml", to_yaml(row).encode())
        _write(tmp / "README.md", model_card(metadata, about["weights_sha256"]).encode())
        files = _sums(tmp.rglob("*"), tmp)
        _write(tmp / "SHA256SUMS", "".join(f"{sha256}  {name}\n" for name, sha256 in files.items()).encode())
        fault("export_pre_rename")
    sizes = {name: (folder / name).stat().st_size for name in (*files, "SHA256SUMS")}
    return Exported(sizes, about["weights_sha256"], metadata)


def _metadata(row: Row, task: Task, prepared: Prepared, ledger: Ledger, record: dict[str, Any]) -> dict[str, Any]:
    """Content of the model card. `scores` maps names to figures; the row's own score is named after its test set."""
    scores = {}
    for name, scoring in task.scorings.items():
        score = None if scoring.keys.score is None else ledger.record(task.train_key, "score", scoring.keys.score)
        if score is not None:
            scores[name or scoring.spec.test] = {key: score[key] for key in ("bleu", *ROUGE, "chrf", "signature") if key in score}
    return {
        "id": task.id,
        "label": row.label,
        "seed": task.seed,
        "languages": prepared.manifest["languages"],
        "scores": scores,
        "assumed": row.assumed,
        "capsule": {name: value for name, value in (ledger.read_capsule(task.train_key) or {}).items() if name != "key"},
        "facts": {
            "parameters": f"{record['params']:,}",
            "updates": f"{record['steps']:,}",
            "corpus": f"{task.spec.data.corpus} (prepared data {prepared.key[:16]})",
            "checkpoint": task.spec.decode.checkpoint,
            "beam": task.spec.search.beam_size,
            "started from": task.spec.init_from or "random weights",
            **{f"{name} key": key for name, key in task.keys.as_dict().items()},
        },
    }


def _copy_code(folder: Path) -> None:
    source = Path(str(models.__file__)).parent
    for path in sorted(path for kind in ("*.py", "*.c", "*.h") for path in source.rglob(kind)):
        _write(folder / "models" / path.relative_to(source), path.read_bytes())
    sources = {name: (ROOT / "orchestrator" / name).read_text(encoding="utf-8") for name in CODE} | {"specs/schema.py": SCHEMA}
    for name, text in sources.items():
        text = text.replace("from orchestrator import", "from translator import").replace("from orchestrator.", "from translator.")
        _write(folder / "translator" / name, text.encode())
    packages = {parent for name in sources for parent in Path("translator", name).parents if parent.name}
    for package in sorted(packages):
        _write(folder / package / "__init__.py", b"")
    _write(folder / "translate.py", SCRIPT.read_bytes())


def _sums(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    files = sorted(path for path in paths if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.naming(path, len(data)):
        atomic.write_new(path, data)


def model_card(metadata: Mapping[str, Any], weights_sha256: str) -> str:
    """Returns Markdown. metadata: see `_metadata`. Figures appear as in the ledger, with their signatures."""
    source, target = map(markdown, metadata["languages"])
    facts = {**metadata["facts"], "sha256 of the weights": weights_sha256, **metadata["capsule"]}
    scores = []
    for name, found in metadata["scores"].items():
        figures = ", ".join(f"{title} {_figure(found[key])}" for key, title in TITLES.items() if key in found)
        scores.append(f"| {markdown(name)} | {figures} | {markdown(str(found.get('signature', '')))} |")
    return Template(Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")).substitute(
        name=f"{markdown(metadata['id'])}, seed {metadata['seed']}",
        about=f"{markdown(metadata['label'])}. A translation model from {source} to {target}",
        facts="\n".join(f"| {markdown(name)} | {_text(value)} |" for name, value in facts.items()),
        scores="\n".join(scores),
        assumed="\n".join(f"- {markdown(text)}" for text in metadata["assumed"]) or "Nothing.",
    )


def _figure(value: Any) -> str:
    value = value.get("score", value) if isinstance(value, Mapping) else value
    return f"{value:.2f}" if isinstance(value, (int, float)) else _text(value)


def _text(value: Any) -> str:
    return markdown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
