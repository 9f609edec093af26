"""`data get` against a stand-in for the Hugging Face Hub that answers late, wrongly or not at all."""

import errno
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from huggingface_hub import constants

from orchestrator.data import fetch
from orchestrator.data.formats import Columns
from orchestrator.data.joined import joined
from orchestrator.errors import UserError
from tests.command import start
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
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        yield found


def said(tmp_path: Path) -> list[str]:
    return refused(fetch.get, "talks", tmp_path / "data")


def test_the_text_and_where_it_came_from(server: Hub, tmp_path) -> None:
    server.files["default/train/0001.parquet"] = parquet_of([("mehr", "more")], nested=False)
    server.files["default/train/parts/0002.parquet"] = b"of another folder"
    server.faults = {"train/0000.parquet": [503, 429, "cut", "cut"]}
    assert len(fetch.get("talks", tmp_path / "data")) == 6
    folder = tmp_path / "data" / "talks"
    assert (folder / "train.en").read_text().splitlines() == [en for _, en in PAIRS] + ["more"]
    record = json.loads((folder / "provenance.json").read_text())
    assert set(record) == {f"{split}.{side}" for split in ("train", "valid", "test") for side in ("de", "en")}
    source = record["train.en"]["source"]
    assert source["url"] == f"{server.url}/datasets/me/x" and source["revision"] == COMMIT and len(source["files"]) == 2
    assert not list((tmp_path / "c").rglob("*.parquet")), "files that have been read are removed"


def test_a_source_that_does_not_answer_is_asked_once(server: Hub, tmp_path, monkeypatch) -> None:
    server.faults = {"revision": [401] * 9}
    (line,) = said(tmp_path)
    assert line.startswith("talks (train, valid, test): ") and "answers 401 Unauthorized" in line and "set HF_TOKEN" in line
    assert len(server.asked) == 1
    for name, value, found in (("HF_TOKEN", "hf_one\ntwo", "LocalProtocolError"), ("HF_ENDPOINT", "http://[::1", "InvalidURL")):
        monkeypatch.setenv(name, value)
        (line,) = said(tmp_path)
        assert f"found {found}: " in line and "hf_one" not in line
    monkeypatch.setenv("HF_ENDPOINT", "https://me:secret@hub.example")
    assert "HF_ENDPOINT: found a user or password" in said(tmp_path)[0] and "secret" not in said(tmp_path)[0]


FAULTS: dict[str, tuple[dict[str, list[int | str]], str]] = {
    "absent": ({"revision": [404]}, "404 Not Found: no such dataset, revision, configuration or split"),
    "gated": ({"0000.parquet": [403]}, "answers 403 Forbidden: no such dataset, or a private or gated one; accept its terms"),
    "busy": ({"0000.parquet": [429] + [503] * 6}, "answers 503 Service Unavailable: try again later"),
    "html": ({"revision": ["html"]}, "expected an answer of the hub; found JSONDecodeError: Expecting value"),
    "cut": ({"0000.parquet": ["cut"] * 6}, "expected an answer of the hub; found RemoteProtocolError: peer closed connection"),
    "short": ({"0000.parquet": ["short"]}, "found OSError: Consistency check failed: file should be of size"),
    "wrong": ({"0000.parquet": ["wrong"]}, "received sha256 "),
    "stall": ({"0000.parquet": ["stall"] * 6}, "expected an answer of the hub; found ReadTimeout: "),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_one_line_and_leaves_no_file(what: str, server: Hub, tmp_path) -> None:
    server.faults, expected = FAULTS[what]
    lines = said(tmp_path)
    assert expected in lines[0] and "network" not in lines[0] and lines[0].startswith("talks (train")
    assert not list((tmp_path / "data/talks").glob("train*")) and not list((tmp_path / "data/talks").glob("*.tmp"))
    assert not list((tmp_path / "c").rglob("*.parquet"))
    fetch.get("talks", tmp_path / "data")
    assert len(list((tmp_path / "data/talks").glob("*.[de][en]"))) == 6, "the next call fetches what is missing"


def test_text_that_is_not_there_names_file_and_column(server: Hub, tmp_path) -> None:
    server.files["default/train/0000.parquet"] = parquet_of([*PAIRS, ("drei", None)])
    server.files["default/test/0000.parquet"] = b"PAR1" + bytes(100)
    server.files["default/validation/0000.parquet"] = parquet_of(PAIRS).replace(b"de", b"xx")
    lines = said(tmp_path)
    assert "record 51: column translation.en: found null; expected text" in lines[0]
    assert any("damaged Parquet file" in line for line in lines) and all("network" not in line for line in lines)
    server.asked.clear()
    assert said(tmp_path) == lines and not any("resolve" in route for route in server.asked), "complete files are found again"


def test_a_full_disk_names_the_folder(server: Hub, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(fetch, "_write_rows", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match=r"No space left on device: '.*data/talks'"):
        fetch.get("talks", tmp_path / "data")


def test_a_split_of_a_dataset_in_data_add(server: Hub, tmp_path) -> None:
    with joined({"train": [("hub:me/x:default:train",), ("hub:me/x:test",)]}, Columns(("de", "en"))) as files:
        assert files["train"][1].read_text().splitlines() == [en for _, en in PAIRS] * 2
    with pytest.raises(UserError, match=r"tree/5+: found no file default/dev/\*.parquet"):
        joined({"train": [("hub:me/x:dev",)]}, Columns(("a", "b"))).__enter__()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_fetched_again(number: int, server: Hub, tmp_path) -> None:
    server.faults = {"train/0000.parquet": ["stall"]}
    process = start("data", "get", "talks", "--data-dir", tmp_path / "data", HF_HUB_OFFLINE="0")
    assert server.stalls.wait(60)
    temporary = list((tmp_path / "data/talks").glob(".train.de.*.tmp"))
    process.send_signal(number)
    err = process.communicate()[1]
    assert temporary and "checkpoint" not in err
    assert (process.returncode, err.count("interrupted")) == ((130, 1) if number == signal.SIGINT else (-9, 0))
    assert len(fetch.get("talks", tmp_path / "data")) == 6 and not list((tmp_path / "data/talks").glob("*.tmp"))
