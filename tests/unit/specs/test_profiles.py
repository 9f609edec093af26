"""What a profile does to schedules, which scale holds for which corpus, and what is said of a bad profile file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.specs import profiles
from orchestrator.specs.profiles import Profile
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import Schedule


def _peak(schedule: Schedule, d_model: int) -> float:
    return schedule.factor * d_model**-0.5 * schedule.warmup**-0.5


@pytest.mark.parametrize("profile", ["smoke", "gpu"])
def test_noams_highest_rate_stays_as_published(profile: str) -> None:
    (published,), (scaled,) = resolve("dou2018/table1/row1"), resolve("dou2018/table1/row1", profile=profile)
    assert published.spec is not None and scaled.spec is not None
    width, narrow = published.spec.model.d_model, scaled.spec.model.d_model
    assert narrow < width
    assert scaled.spec.optim.schedule.warmup < published.spec.optim.schedule.warmup
    assert _peak(scaled.spec.optim.schedule, narrow) == pytest.approx(_peak(published.spec.optim.schedule, width), rel=1e-3)


@pytest.mark.parametrize("profile", ["smoke", "gpu"])
def test_a_plateau_keeps_its_rate_and_validates_by_the_profiles_steps(profile: str, spec: Callable[..., Path]) -> None:
    train = "train: {max_steps: null, max_epochs: 9, validate_every: epoch, checkpoint_every: epoch}"
    path = spec(f"  r: {{optim: {{kind: nag, clip_norm: 0.1, schedule: {{kind: plateau, lr: 0.25}}}}, {train}}}\n")
    (published,), (scaled,) = resolve(path), resolve(path, profile=profile)
    assert published.spec is not None and scaled.spec is not None
    assert published.spec.train.validate_every == published.spec.train.checkpoint_every == "epoch"
    assert scaled.spec.optim == published.spec.optim and scaled.spec.optim.momentum == 0.99
    assert isinstance(scaled.spec.train.validate_every, int) and isinstance(scaled.spec.train.checkpoint_every, int)


def test_a_corpus_scale_says_only_what_differs() -> None:
    own = {"width": 0.5, "warmup": None, "batch": {"size": 800}}
    whole = {"width": 0.25, "warmup": 400, "optim": {"clip_norm": 9}, "batch": {"unit": "tokens", "size": 400}, "train": {"max_steps": 7}}
    profile = Profile.model_validate(whole | {"corpora": {"iwslt14-de-en": own}})
    small = profile.of("iwslt14-de-en")
    assert (small.width, small.warmup, small.optim) == (0.5, None, {"clip_norm": 9})
    assert small.batch == {"unit": "tokens", "size": 800} and small.train == {"max_steps": 7}
    assert profile.of("wmt14-en-de") == profile


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a profile `mine` where profiles are looked for."""
    monkeypatch.setattr(profiles, "SEARCH_SPACES", tmp_path)
    (tmp_path / "profiles").mkdir()

    def write(text: str) -> Path:
        path = tmp_path / "profiles" / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("widht: 0.5\n", [r":1: widht: unknown key; expected one of .*did you mean width\?"]),
        ("width: 1.0\nwarmup: fast\n", [r":2: warmup: found 'fast'; expected a whole number"]),
        ("corpora:\n  wmt14-en-de:\n    widht: 1\n", [r":3: corpora.wmt14-en-de.widht: unknown key; .*did you mean width\?"]),
        (
            "corpora:\n  wmt14-en-de:\n    score: {}\n",
            [r":3: corpora.wmt14-en-de.score: unknown key; expected one of batch, data, dropout, log_gradient_norms, mod"],
        ),
        ("corpora:\n  wmt14-en-de: {width: 9}\n", [r":2: corpora.wmt14-en-de.width: found 9; expected a number <= 4"]),
        ("corpora:\n  wmt14-en-de: 3\n", [r":2: corpora.wmt14-en-de: found 3; expected a mapping"]),
        ("corpora:\n  wmt14-en-ed: {}\n", [r":2: corpora.wmt14-en-ed: unknown corpus; .*did you mean wmt14-en-de\?"]),
        (
            "train: 3\ncorpora:\n  wmt14-en-de: {width: wide}\n  iwslt14-de-en: {warmup: -1}\n",
            [":1: train: found 3; expected a mapping", ":3: .*found 'wide'; expected a number", ":4: .*found -1; expected a number >= 0"],
        ),
    ],
)
def test_a_bad_profile_is_one_line_an_error(text: str, lines: list[str], shipped: Callable[[str], Path], cli: Callable[..., tuple]) -> None:
    path = shipped(text)
    with pytest.raises(UserError) as caught:
        resolve("dou2018/table1/row1", profile="mine")
    assert len(caught.value.lines) == len(lines)
    for line, expected in zip(caught.value.lines, lines, strict=True):
        assert re.match(re.escape(str(path)) + expected, line), line
    code, out, err = cli("show", "dou2018/table1/row1", "--profile", "mine")
    assert (code, out, err.count("\n")) == (2, "", len(lines)) and "Traceback" not in err
