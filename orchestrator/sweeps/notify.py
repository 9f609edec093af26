"""`--notify`: tells a command or an address when a sweep ends, a run fails, or the cap on hours is reached.

A command gets the line as its last argument and the record as JSON on stdin; an address (http, https) gets the JSON by POST. A hook that
fails is a warning. Of the target only its program or its host is ever printed, since the rest may hold a secret.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.parse
import urllib.request
from typing import Any

from orchestrator.errors import UserError
from orchestrator.safe_text import log

TIMEOUT = 15.0
"""Seconds after which a hook is given up."""
END, FAILURE, CAP = "end", "failure", "cap"


def check(target: str | None) -> None:
    """UserError in one line for a target that cannot be called."""
    if target is None or _is_address(target):
        if target is not None and not urllib.parse.urlsplit(target).hostname:
            raise UserError("--notify: found an address without a host; expected http://HOST/.. or https://HOST/..")
        return
    words = _words(target)
    if not words or shutil.which(words[0]) is None:
        found = f"{_name(target)}: no such command" if words else "nothing"
        raise UserError(f"--notify: found {found}; expected a command, as in --notify 'notify-send nmt', or an http(s) address")


def send(target: str | None, event: str, sweep: str, line: str, **about: Any) -> None:
    """Tells the target one event. Failures are a warning on stderr."""
    if target is None:
        return
    record = json.dumps({"event": event, "sweep": sweep, "text": line, **about}, allow_nan=False, default=str)
    try:
        if _is_address(target):
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(target, record.encode(), headers, method="POST")
            with urllib.request.urlopen(request, timeout=TIMEOUT):
                return
        done = subprocess.run([*_words(target), line], input=record, text=True, capture_output=True, timeout=TIMEOUT)
        problem = f"exit code {done.returncode}" if done.returncode else ""
    except Exception as error:  # a hook never ends a sweep; the error's text may hold the target
        problem = f"HTTP {code}" if (code := getattr(error, "code", None)) else type(error).__name__
    if problem:
        log(f"warning: --notify {_name(target)}: {problem}; the sweep is not affected")


def _is_address(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def _words(target: str) -> list[str]:
    try:
        return shlex.split(target)
    except ValueError:
        raise UserError("--notify: found a command with an open quote; expected a command line or an http(s) address") from None


def _name(target: str) -> str:
    return str(urllib.parse.urlsplit(target).hostname) if _is_address(target) else (_words(target) or [""])[0]
