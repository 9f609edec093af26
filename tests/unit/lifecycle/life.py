"""What the tests of the life cycle share."""

import json
from pathlib import Path

from orchestrator.files.documents import sealed
from orchestrator.lifecycle.garbage import Garbage

SPEC = """\
source: {paper: life, table: cycle}
data: {corpus: toy-smoke, subword: {kind: bpe, size: 120, joint: false, merges: joint}}
batch: {unit: tokens, size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
optim: {schedule: {kind: inverse-sqrt, lr: 3.0e-3, warmup: 4}}
train: {max_steps: 6, validate_every: 3, checkpoint_every: 3, snapshots: 2}
decode: {beam_size: 2, max_extra: 3}
rows:
  base: {}
  child: {init_from: base, model: {d_ff: 48}, decode: {length_penalty: {alpha: tuned, candidates: [0.0, 1.0]}}}
"""


def put(path: Path, data: bytes | str = b"x" * 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def edit(path: Path, **changes: object) -> None:
    """Other values in a record, which is sealed anew."""
    document = json.loads(path.read_text())
    path.write_text(json.dumps(sealed({name: value for name, value in document.items() if name != "digest"} | changes, document["key"])))


def tensors(run: Path) -> None:
    """Files that stand where checkpoints, snapshots and weights stand."""
    for name in ("ckpt/step-00000003/model.safetensors", "ckpt/step-00000003/manifest.json", "ckpt/step-00000006/manifest.json"):
        put(run / name)
    names = [f"weights/{name}{end}" for name in ("last", "best", "ema") for end in (".json", "-0123456789abcdef.safetensors")]
    for name in ("snapshots/step-00000003.safetensors", *names):
        put(run / name)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, but for what locks leave."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("lock", "lock.json")) and ".lifecycle" not in path.name
    }


def goes(found: Garbage, run: Path) -> set[str]:
    """What a collection takes of a run."""
    return {item.path.relative_to(run).as_posix() for item in found.items if run in item.path.parents}


def rows_in(results: Path) -> dict[str, str]:
    """Row -> its train key."""
    found = {}
    for path in (results / "sweeps").glob("*.json"):
        if not path.name.endswith((".lock.json", ".asha.json")):
            found |= {row["id"]: row["keys"]["train"] for row in json.loads(path.read_text())["rows"]}
    return found
