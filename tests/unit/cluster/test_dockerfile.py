"""What can be said of the Dockerfile without a Docker daemon: its parts exist, it is not root, it holds no secret. It was never built."""

import re

import pytest

from orchestrator.paths import ROOT

TEXT = (ROOT / "cluster" / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str, str]]:
    """(stage, instruction, rest), continued lines joined, comments left out."""
    lines = re.sub(r"\\\n\s*", "", "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))).splitlines()
    found, stage = [], ""
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.split(" AS ")[1]
        found.append((stage, word, rest))
    return found


STAGES = {stage: rest.split(" AS ")[0] for stage, word, rest in instructions() if word == "FROM"}


def ancestors(stage: str) -> list[str]:
    return [stage, *ancestors(STAGES[stage])] if stage in STAGES else []


@pytest.mark.parametrize("stage", ["cpu", "cuda", "mlflow"])
def test_the_last_user_is_a_number_and_not_root(stage):
    users = [rest for name in reversed(ancestors(stage)) for here, word, rest in instructions() if word == "USER" and here == name]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])


def test_no_secret_is_asked_for_or_kept():
    for _, word, rest in instructions():
        if word in ("ARG", "ENV"):
            assert not re.search(r"token|password|passwd|secret|credential|api_?key", rest, re.IGNORECASE), rest
