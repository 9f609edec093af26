"""What tests of several packages share: spec files, a corpus, processes that die at a fault, prepared data, a trained row."""

import os
import shutil
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UserError

MINIMAL = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 2}}
train: {max_steps: 4, validate_every: 2, checkpoint_every: 2}
rows:
"""


def refused(call: Callable[..., object], *arguments: object, **options: object) -> list[str]:
    """The lines of the UserError that the call ends with."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    return caught.value.lines


@pytest.fixture
def spec(tmp_path) -> Callable[..., Path]:
    """Writes a file: the minimal head, then `rows` (indented by two), or a whole `text`."""

    def write(rows: str = "  base: {}\n", *, text: str | None = None, name: str = "spec.yaml", head: str = MINIMAL) -> Path:
        path = tmp_path / name
        path.write_bytes((head + rows if text is None else text).encode("utf-8"))
        return path

    return write


@pytest.fixture
def forked() -> Callable[..., int]:
    """`forked(work, fault)`: runs `work()` in a forked process under NMT_FAULT; its exit code, negative for a signal."""

    def run(work: Callable[[], object], fault: str = "", once: str = "") -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ.update({name: value for name, value in (("NMT_FAULT", fault), ("NMT_FAULT_ONCE", once)) if value})
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not the handler of the test's own timeout
                signal.alarm(60)
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """The corpus of `tests.unit.training.support.SPEC`, prepared once for all workers."""
    from orchestrator.data.prepare import prepare
    from tests.unit.training.support import SPEC

    return prepare(SPEC.data, None, tmp_path_factory.getbasetemp().parent / "data-cache")


@pytest.fixture(scope="session")
def trained(tmp_path_factory, cli) -> tuple[Path, Path, Path]:
    """(spec file, results, cache) with `base` trained and scored for 6 updates, and `child` from it. Not to be changed."""
    from tests.unit.lifecycle.life import SPEC, put

    base = tmp_path_factory.mktemp("trained")
    spec = put(base / "spec.yaml", SPEC)
    places = ["--results", base / "results", "--cache-dir", base / "cache"]
    assert cli("sweep", spec, "--engine", "local", "--no-tracking", *places)[0] == 0
    return spec, base / "results", base / "cache"


@pytest.fixture
def copy(trained, tmp_path) -> Path:
    """The results of `trained`, to be changed."""
    return Path(shutil.copytree(trained[1], tmp_path / "results"))


LINES = [
    'He said: "we\'re late", and left.',
    "It's the director's fault, isn't it?",
    "Don't ask, he won't tell you.",
    "The dog's owner, a tall man, waits.",
    "R&D costs more, they say.",
    "A man, a boat and a river.",
]
ENTRY = """\
description: a test
licence: none
src: en
tgt: {target}
{text}
folders: [talks]
splits:
  train: {{src: train.src, tgt: [train.tgt]}}
  valid: {{src: valid.src, tgt: [valid.tgt]}}
  test: {{src: test.src, tgt: [test.tgt]{raw}}}
sources: [{{kind: user, obtain: write it yourself}}]
"""


@pytest.fixture
def raw_lines() -> list[str]:
    return list(LINES)


@pytest.fixture
def token_lines() -> list[str]:
    """As fairseq's prepare-iwslt14.sh leaves text: Moses' tokens, escaped, in lower case."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer("en")
    return [moses.tokenize(line, return_str=True, escape=True).lower() for line in LINES]


@pytest.fixture
def talks(tmp_path, monkeypatch) -> Callable[..., Path]:
    """`talks(lines, text=.., target=.., raw=..)` writes the corpus and its entry -> the data directory."""
    from orchestrator.specs import corpora

    folder = tmp_path / "catalogue"
    folder.mkdir()
    monkeypatch.setattr(corpora, "FOLDER", folder)

    def make(lines: list[str], text: str | None = None, target: str = "en", raw: list[str] | None = None) -> Path:
        names = ", raw: [test.raw]" if raw is not None else ""
        entry = ENTRY.format(target=target, text="" if text is None else f"text: {text}", raw=names)
        (folder / "talks.yaml").write_text(entry, encoding="utf-8")
        files = tmp_path / "data" / "talks"
        files.mkdir(parents=True, exist_ok=True)
        for name, content in [("train", lines * 10), ("valid", lines[:-1]), ("test", lines)]:
            for side, text_of_side in (("src", content[1:] + content[:1]), ("tgt", content)):
                (files / f"{name}.{side}").write_text("".join(line + "\n" for line in text_of_side), encoding="utf-8")
        if raw is not None:
            (files / "test.raw").write_text("".join(line + "\n" for line in raw), encoding="utf-8")
        return tmp_path / "data"

    return make
