"""Correctness of fast decoding: BLEU of one trained model for each way of decoding it, compared with the slowest and plainest.

The slow path is plain.py: another model with the same weights, one sentence at a time, no cache, the search written in Python. A wrong fast
path shows in BLEU and in the share of outputs equal to the slow path's (ties and rounding may change a few). Beam 5 without length penalty,
so that toolkits with other penalties have the same objective.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import ctranslate2_model
import plain
import switches
import torch
import yaml
from contenders import Setting
from driver import Lost, Worker
from safetensors.torch import save_file
from sizes import Size

from models.inference import Precision
from orchestrator.data.prepare import prepare
from orchestrator.decoding.translate import decode_corpus
from orchestrator.ledger.run_files import Store
from orchestrator.scoring.scores import sacre_bleu
from orchestrator.specs.schema import DecodeSpec, LengthPenalty, RunSpec
from orchestrator.sweeps.row import load_model

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".data-cache"
BEAM, LONGEST = 5, 60
QUICKSTART = ["data.subword.joint=true", "model.embeddings=three-way"]

Ids = list[list[int]]


def trained(row: str | None, say: Callable[[str], None]) -> Path:
    """Returns the run directory of a trained row, by default the quickstart row pre-norm with tied embeddings, trained once.

    Raises SystemExit if that training fails.
    """
    if row is not None:
        return Path(row)
    results = CACHE / "benchmark"
    found = [path.parents[1] for path in results.glob("*/weights/last.json")]
    if not found:
        say("training the quickstart row pre-norm")
        command = [sys.executable, "-m", "orchestrator", "run", f"{ROOT}/search_spaces/quickstart.yaml#pre-norm", "--seed", "1"]
        command += ["--engine", "local", "--no-tracking", "--results", str(results), "--cache-dir", str(CACHE)]
        command += [part for change in QUICKSTART for part in ("--set", change)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"error: the row did not train: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        found = [path.parents[1] for path in results.glob("*/weights/last.json")]
    return found[0]


def check(row: str | None, setting: Setting, with_ctranslate2: bool, scratch: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Returns {"row", "params", "beam", "sentences", "rows": [{"contender", "precision", "bleu", "equal"}]}.

    A way of decoding that is not available has a "problem" instead of figures.
    """
    place = trained(row, say)
    record = yaml.safe_load((place / "spec.yaml").read_text())
    spec = RunSpec.model_validate(record["spec"])
    prepared = prepare(spec.data, None, CACHE)
    model = load_model(spec, prepared, Store(place, record["key"]), torch.device("cpu"))
    sources = prepared.encode(prepared.sources(spec.score.test))
    ways: list[dict[str, Any]] = []
    say("quality: the slow path")
    slow, problem = _slow(model, spec, sources)
    if slow:
        ways.append({"contender": "plain, slow path", "precision": "fp32", "outputs": slow})
    else:
        ways.append({"contender": "plain, slow path", "precision": "fp32", "problem": problem})
    for fast, name in ((False, "ours, off"), (True, "ours")):
        for precision in get_args(Precision) if fast else ("fp32",):
            say(f"quality: {name} {precision}")
            switches.set(fast)
            ways.append({"contender": name, "precision": precision, "outputs": _ours(model, sources, precision)})
    switches.set(True)
    if with_ctranslate2:
        say("quality: CTranslate2")
        ways += _ctranslate2(model, spec, sources, setting, scratch)
    reference = next(way["outputs"] for way in ways if "outputs" in way)
    rows = [_scored(way, reference, prepared, spec.score.test) for way in ways]
    return {
        "row": record["id"],
        "params": sum(p.numel() for p in model.parameters()),
        "beam": BEAM,
        "sentences": len(sources),
        "rows": rows,
    }


def _ours(model: Any, sources: Ids, precision: Precision) -> Ids:
    penalty = LengthPenalty(kind="none")
    spec = DecodeSpec(beam_size=BEAM, length_penalty=penalty, max_ratio=1e-6, max_extra=LONGEST, precision=precision)
    return [found.ids for found in decode_corpus(model, sources, spec)]


def _slow(model: Any, spec: RunSpec, sources: Ids) -> tuple[Ids, str]:
    m = spec.model
    try:
        ctranslate2_model.refuse(m.model_dump())
    except ctranslate2_model.Unsupported as problem:
        return [], str(problem)
    vocab = model.output.weight.shape[0]
    reference = plain.PlainTransformer(
        vocab, m.d_model, m.d_ff, m.num_heads, m.encoder.num_layers, 0.0, pre=m.norm == "pre", eps=m.norm_eps
    ).eval()
    reference.load(dict(model.named_parameters()))
    return [plain.search_one(reference, source, BEAM, LONGEST) if source else [] for source in sources], ""


def _ctranslate2(model: Any, spec: RunSpec, sources: Ids, setting: Setting, scratch: Path) -> list[dict[str, Any]]:
    m = spec.model
    ways: list[dict[str, Any]] = [{"contender": "CTranslate2", "precision": precision} for precision in ("fp32", "int8")]
    config = m.model_dump()
    weights = {name: p.detach().contiguous() for name, p in model.named_parameters()}
    try:
        ctranslate2_model.variables({name: w.numpy() for name, w in weights.items()}, config)
        save_file(weights, scratch / "trained.safetensors")
        (scratch / "trained.json").write_text(json.dumps(config))
        (scratch / "trained-text.json").write_text(json.dumps([[source, []] for source in sources]))
        size = Size(m.d_model, m.d_ff, m.num_heads, m.encoder.num_layers, model.output.weight.shape[0])
        job = {"task": "quality", "size": asdict(size), "text": str(scratch / "trained-text.json"), "threads": setting.threads, "seed": 1}
        job |= {"length": LONGEST - 1, "weights": str(scratch / "trained.safetensors"), "config": str(scratch / "trained.json")}
        program = setting.program("ctranslate2")
        if program.missing:
            raise Lost(program.missing)
        worker = Worker(program, job)
        for way in ways:
            way["outputs"] = worker.ask({"go": {"beam": BEAM, "precision": way["precision"]}})["outputs"]
        worker.close()
    except (Lost, ctranslate2_model.Unsupported) as problem:
        for way in ways:
            way.setdefault("problem", str(problem))
    return ways


def _scored(way: dict[str, Any], reference: Ids, prepared: Any, test: str) -> dict[str, Any]:
    row = {key: way[key] for key in ("contender", "precision", "problem") if key in way}
    if "outputs" in way:
        outputs = way["outputs"]
        row["bleu"] = round(sacre_bleu(prepared.decode(outputs), prepared.reference_text(test))["score"], 2)
        row["equal"] = round(sum(a == b for a, b in zip(outputs, reference, strict=True)) / len(reference), 4)
    return row
