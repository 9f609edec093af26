"""What is uploaded: no secret, no data, small enough, the commit in it, and always the same bytes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path, PurePath

import pytest

from orchestrator.engines.ray.jobs import upload
from orchestrator.engines.ray.jobs.api import ignored_by
from orchestrator.engines.ray.jobs.secret_names import is_secret
from orchestrator.errors import UserError
from orchestrator.ledger import provenance

COMMIT, DIRTY = "a" * 40, "b" * 64


@pytest.fixture
def checkout(tmp_path) -> Path:
    for name in ("orchestrator/cli/main.py", "orchestrator/data/tokenize.py", "search_spaces/a.yaml", "cluster/sweep.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in (
        "results/ab/weights.bin",
        "sub/out/big.bin",
        ".env",
        "prod.env",
        "notes/cluster-token.txt",
        "keys/deploy.pem",
        ".git/config",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("canary")
    (tmp_path / ".gitignore").write_text("/results/\n")
    (tmp_path / "sub/.rayignore").write_text("out/\n")
    (tmp_path / "link").symlink_to("/etc")
    return tmp_path


def test_ignore_files_of_every_folder_count_and_secrets_never_travel(checkout):
    found = upload.collect(checkout, ignored_by)
    files = {name.as_posix() for name in found.files}
    assert files == {
        ".gitignore",
        "cluster/sweep.sh",
        "orchestrator/cli/main.py",
        "orchestrator/data/tokenize.py",
        "search_spaces/a.yaml",
        "sub/.rayignore",
    }
    assert PurePath("notes/cluster-token.txt") in found.withheld


@pytest.mark.parametrize(
    "name", ["a/id_ed25519", "KubeConfig.yaml", "my-secrets.json", "db_password", ".ray/x", "auth_token", "AWS-Credentials.csv"]
)
def test_names_of_secrets(name):
    assert is_secret(PurePath(name))


def test_no_file_of_the_repository_is_taken_for_a_secret(repository):
    found = upload.collect(repository, ignored_by)
    assert found.bytes < 60 * upload.MIB
    assert not [name for name in found.withheld if name.parts[0] in ("orchestrator", "models", "search_spaces", "cluster", "docs", "tests")]


def test_too_much_is_refused_before_anything_is_packed(checkout):
    for name, size in (("corpora/de/train.txt", 90), ("corpora/en/train.txt", 20), ("models/x.bin", 1)):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        with (checkout / name).open("wb") as file:
            file.truncate(size * upload.MIB)
    with pytest.raises(UserError) as error:
        upload.collect(checkout, ignored_by)
    (line,) = error.value.lines
    assert line.startswith(
        "the upload has 111.0 MiB; Ray takes less than 100.0 MiB: the largest are corpora/de/ (90.0 MiB), corpora/en/ (20.0 MiB)"
    )


def test_a_spec_that_the_job_could_not_read_is_named(checkout, tmp_path_factory):
    outside = tmp_path_factory.mktemp("home") / "s.yaml"
    outside.write_text("x")
    found = upload.collect(checkout, ignored_by)
    upload.check_readable(found, [checkout / "search_spaces" / "a.yaml"])
    with pytest.raises(UserError) as error:
        upload.check_readable(found, [outside, checkout / "results/ab/weights.bin", checkout / "notes/cluster-token.txt"])
    assert [text in line for text, line in zip(("outside of what", "by .gitignore", "a secret's"), error.value.lines, strict=True)] == [
        True
    ] * 3


def test_the_zip_is_the_same_every_time_and_carries_the_commit(checkout, tmp_path, monkeypatch):
    found = upload.collect(checkout, ignored_by)
    for name in ("one.zip", "two.zip"):
        upload.write_zip(found, tmp_path / name, commit=COMMIT, dirty=DIRTY, token="t0ken")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as package:
        package.extractall(tmp_path / "there")
    monkeypatch.setattr(provenance, "ROOT", tmp_path / "there")
    assert provenance.git() == (COMMIT, DIRTY)
    (tmp_path / "there" / provenance.COMMIT_FILE).write_text(json.dumps({"git_commit": "$(id)", "dirty_sha256": None}))
    assert provenance.git() == (None, None)


def test_a_file_that_holds_the_token_stops_it(checkout, tmp_path):
    (checkout / "search_spaces" / "a.yaml").write_text("note: 0123456789abcdef")
    with pytest.raises(UserError, match=r"search_spaces/a\.yaml: holds the cluster's token"):
        upload.write_zip(upload.collect(checkout, ignored_by), tmp_path / "x.zip", commit=None, dirty=None, token="0123456789abcdef")
