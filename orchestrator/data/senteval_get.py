"""`nmt-ablate data get senteval-probing` and `data check senteval-probing`: the ten files from the repository of SentEval.

A file is checked before it gets its final name. Existing files are not touched. SentEval publishes no hashes.
"""

from __future__ import annotations

import http.client
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.data.senteval import NAME, TASKS, load, read
from orchestrator.errors import UserError
from orchestrator.files.no_file import the_file

BASE = "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing"
TIMEOUT = 60.0
"""Seconds without data after which a download fails."""


def get(data_dir: Path | None, log: Callable[[str], None]) -> list[Path]:
    """Fetches missing files to DIR/senteval-probing and returns them. Raises UserError with a line for each file that failed or is bad."""
    folder = _folder(data_dir, "get", "write to")
    folder.mkdir(parents=True, exist_ok=True)
    missing = [task.file for task in TASKS.values() if the_file([folder / task.file, folder / f"{task.file}.gz"]) is None]
    problems: list[str] = []
    for file in missing:
        log(f"{NAME}: {file}")
        problems += _fetch(f"{BASE}/{file}", folder / file)
    if problems:
        raise UserError(*problems)
    return [folder / file for file in missing]


def _fetch(url: str, path: Path) -> list[str]:
    """Fetches one file, completely or not at all. Returns its problems."""
    tmp = path.with_name(f".{path.name}.tmp")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, tmp.open("wb") as out:
            shutil.copyfileobj(answer, out)
        faults = [f"{url}: delivered a bad file: {fault.removeprefix(f'{tmp}: ')}" for fault in read(tmp)[1]]
        if not faults:
            tmp.replace(path)
        return faults
    except (OSError, http.client.HTTPException) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error).split())[:200]
        return [f"{NAME}: {url} could not be fetched; is there a network? ({reason})"]
    finally:
        tmp.unlink(missing_ok=True)


def check(data_dir: Path | None) -> dict[str, Any]:
    """Returns a report like `data check` of a corpus: sizes by task and split, and problems."""
    sets, problems = load(TASKS.values(), _folder(data_dir, "check", "read"))
    splits = {name: one["split"].value_counts().to_dict() | {"labels": one["label"].nunique()} for name, one in sets.items()}
    return {"corpus": NAME, "splits": splits, "problems": problems, "warnings": []}


def _folder(data_dir: Path | None, command: str, purpose: str) -> Path:
    if data_dir is None:
        raise UserError(f"data {command} {NAME} needs --data-dir DIR, the directory to {purpose}")
    return data_dir / NAME
