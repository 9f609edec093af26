"""`nmt-ablate data get senteval-probing`: fetches the ten files from the repository of SentEval.

The format of each file is checked before it is renamed to its final name. Existing files are not touched. There are no published hashes.
"""

from __future__ import annotations

import http.client
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

from orchestrator.data.senteval import NAME, TASKS, SentEvalTask, find, read
from orchestrator.errors import UserError

BASE = "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing"
TIMEOUT = 60.0
"""Seconds without data after which a download fails."""


def get(data_dir: Path | None, log: Callable[[str], None]) -> list[Path]:
    """Fetches missing files to DIR/senteval-probing and returns them. Raises UserError with a line for each file that failed or is bad."""
    if data_dir is None:
        raise UserError(f"data get {NAME} needs --data-dir DIR, the directory to write to")
    folder = data_dir / NAME
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    problems: list[str] = []
    for task in TASKS.values():
        if find(task, folder) is not None:
            continue
        log(f"{NAME}: {task.file}")
        try:
            written.append(_fetch(task, folder))
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*problems)
    return written


def _fetch(task: SentEvalTask, folder: Path) -> Path:
    """Fetches one file, completely or not at all."""
    url, path = f"{BASE}/{task.file}", folder / task.file
    tmp = folder / f".{task.file}.tmp"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, tmp.open("wb") as out:
            shutil.copyfileobj(answer, out)
        _, faults = read(tmp)
        if faults:
            raise UserError(*(f"{url}: delivered a bad file: {fault.removeprefix(f'{tmp}: ')}" for fault in faults))
        tmp.replace(path)
    except (URLError, http.client.HTTPException, OSError) as error:
        reason = " ".join(str(getattr(error, "reason", None) or error).split())[:200]
        raise UserError(f"{NAME}: {url} could not be fetched; is there a network? ({reason})") from None
    finally:
        tmp.unlink(missing_ok=True)
    return path


def check(data_dir: Path | None) -> dict[str, Any]:
    """A report like that of `data check` for a corpus: sizes by task and split, and problems."""
    if data_dir is None:
        raise UserError(f"data check {NAME} needs --data-dir DIR, the directory that holds {NAME}")
    splits: dict[str, dict[str, int]] = {}
    problems: list[str] = []
    for task in TASKS.values():
        if (path := find(task, data_dir / NAME)) is None:
            problems.append(f"{data_dir / NAME / task.file}[.gz]: no such file; get it with: nmt-ablate data get {NAME} --data-dir DIR")
            continue
        parts, faults = read(path)
        problems += faults
        splits[task.name] = {split: len(part) for split, part in parts.items()} | {"labels": len(set(parts["tr"].labels))}
    return {"corpus": NAME, "splits": splits, "problems": problems, "warnings": []}
