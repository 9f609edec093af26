"""`data get` against a stand-in for the Hugging Face Hub that answers late, wrongly or not at all."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.data import fetch, hub
from orchestrator.data.formats import Columns
from orchestrator.data.joined import joined
from orchestrator.errors import UserError
from orchestrator.paths import ROOT
from tests.unit.conftest import refused
from tests.unit.data.hub_server import COMMIT, Hub, parquet_of, serving

PAIRS = [(f"Satz {i}", f"sentence {i}") for i in range(50)]
SPLITS = ("train", "validation", "test")
ENTRY = """description: d
licence: l
src: de
tgt: en
folders: [talks]
splits:
  train: {src: train.de, tgt: [train.en]}
  valid: {src: valid.de, tgt: [valid.en]}
  test: {src: test.de, tgt: [test.en]}
sources:
  - kind: huggingface
    id: me/x
    splits: {train: train, valid: validation, test: test}
"""


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Hub]:
    """A hub with the corpus `talks`, whose entry lies in the user's own search spaces."""
    (tmp_path / "own" / "data").mkdir(parents=True)
    (tmp_path / "own" / "data" / "talks.yaml").write_text(ENTRY)
    with serving() as found:
        found.files = {f"default/{split}/0000.parquet": parquet_of(PAIRS) for split in SPLITS}
        for name, value in (("HF_ENDPOINT", found.url), ("XDG_CACHE_HOME", tmp_path / "c"), ("NMT_SEARCH_SPACES", tmp_path / "own")):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(hub, "TIMEOUT", (1.0, 0.5))
        yield found


def said(tmp_path: Path) -> list[str]:
    return refused(fetch.get, "talks", tmp_path / "data")


def test_the_text_and_where_it_came_from(server: Hub, tmp_path) -> None:
    server.files["default/train/0001.parquet"] = parquet_of([("mehr", "more")], nested=False)
    server.faults = {"tree": [503, 429], "0000.parquet": [503]}
    assert len(fetch.get("talks", tmp_path / "data")) == 6
    folder = tmp_path / "data" / "talks"
    assert (folder / "train.en").read_text().splitlines() == [en for _, en in PAIRS] + ["more"]
    record = json.loads((folder / "provenance.json").read_text())
    assert set(record) == {f"{split}.{side}" for split in ("train", "valid", "test") for side in ("de", "en")}
    source = record["train.en"]["source"]
    assert source["url"] == f"{server.url}/datasets/me/x" and source["revision"] == COMMIT and len(source["files"]) == 2
    assert not list((tmp_path / "c").rglob("*.parquet")), "files that have been read are removed"


def test_a_source_that_does_not_answer_is_asked_once(server: Hub, tmp_path) -> None:
    server.faults = {"revision": [401] * 9}
    (line,) = said(tmp_path)
    assert line.startswith("talks (train, valid, test): ") and "answers 401 Unauthorized" in line and "set HF_TOKEN" in line
    assert len(server.asked) == 1


FAULTS: dict[str, tuple[dict[str, list[int | str]], str]] = {
    "absent": ({"revision": [404]}, "404 Not Found: no such dataset, revision, configuration or split"),
    "busy": ({"0000.parquet": [429, 429, 503]}, "answers 503 Service Unavailable, 3 times; try again later"),
    "cut": ({"0000.parquet": ["cut"]}, "the server cut the answer short"),
    "wrong": ({"0000.parquet": ["wrong"]}, "received sha256 "),
    "stall": ({"0000.parquet": ["stall"]}, "no answer for 0.5 s"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_one_line_and_leaves_no_file(what: str, server: Hub, tmp_path) -> None:
    server.faults, expected = FAULTS[what]
    lines = said(tmp_path)
    assert expected in lines[0] and "network" not in lines[0] and lines[0].startswith("talks (train")
    assert not list((tmp_path / "data/talks").glob("train*")) and not list((tmp_path / "data/talks").glob("*.tmp"))
    fetch.get("talks", tmp_path / "data")
    assert len(list((tmp_path / "data/talks").glob("*.[de][en]"))) == 6, "the next call fetches what is missing"


def test_text_that_is_not_there_names_file_and_column(server: Hub, tmp_path) -> None:
    server.files["default/train/0000.parquet"] = parquet_of([*PAIRS, ("drei", None)])
    server.files["default/test/0000.parquet"] = b"PAR1" + bytes(100)
    server.files["default/validation/0000.parquet"] = parquet_of(PAIRS).replace(b"de", b"xx")
    lines = said(tmp_path)
    assert "record 51: column translation.en: found null; expected text" in lines[0]
    assert any("damaged Parquet file" in line for line in lines) and all("network" not in line for line in lines)


def test_a_full_disk_names_the_folder(server: Hub, tmp_path, monkeypatch) -> None:
    def full(*args) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch, "_write_rows", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*data/talks'"):
        fetch.get("talks", tmp_path / "data")


def test_a_split_of_a_dataset_in_data_add(server: Hub, tmp_path) -> None:
    with joined({"train": [("hub:me/x:default:train",), ("hub:me/x:test",)]}, Columns(("de", "en"))) as files:
        assert files["train"][1].read_text().splitlines() == [en for _, en in PAIRS] * 2
    with pytest.raises(UserError, match=r"tree/5+/default/dev: the hub answers 404"):
        joined({"train": [("hub:me/x:dev",)]}, Columns(("a", "b"))).__enter__()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_fetched_again(number: int, server: Hub, tmp_path) -> None:
    server.faults = {"train/0000.parquet": ["stall"]}
    command = [sys.executable, "-m", "orchestrator", "data", "get", "talks", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stderr=subprocess.PIPE, text=True)
    assert server.stalls.wait(60)
    temporary = list((tmp_path / "data/talks").glob(".train.de.*.tmp"))
    process.send_signal(number)
    err = process.communicate()[1]
    assert temporary and "checkpoint" not in err
    assert (process.returncode, err.count("interrupted")) == ((130, 1) if number == signal.SIGINT else (-9, 0))
    assert len(fetch.get("talks", tmp_path / "data")) == 6 and not list((tmp_path / "data/talks").glob("*.tmp"))
