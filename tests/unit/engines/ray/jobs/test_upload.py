"""What is uploaded: no secret, no data, small enough, and the commit in it."""

import json
import shutil
import subprocess
from pathlib import Path, PurePath
from unittest.mock import Mock

import pytest

from orchestrator.engines.ray.jobs import upload
from orchestrator.engines.ray.jobs.upload import is_secret
from orchestrator.errors import UserError
from orchestrator.ledger import provenance
from tests.unit.conftest import refused

COMMIT, DIRTY = "a" * 40, "b" * 64


TRACKED = ("orchestrator/cli/main.py", "orchestrator/data/tokenize.py", "search_spaces/a.yaml", "cluster/sweep.sh", "sub/.rayignore")
CANARIES = """
    .envrc .netrc.bak .dockercfg .boto .s3cfg rclone.conf deploy_key gcp-key.json terraform.tfstate prod.tfvars accessKeys.csv cookies.txt
    .bash_history .env notes/cluster-token.txt keys/deploy.pem results/ab/weights.bin search_spaces/untracked.yaml
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path) -> Path:
    for name in (*TRACKED, "sub/out/big.bin", "docs/results/ledger/a.json", "tracked/deploy.pem", "gone.txt", *CANARIES.split()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "sub/.rayignore").write_text("out/\n")
    (tmp_path / "link").symlink_to("/etc")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", *TRACKED, "sub", "docs", "tracked", "gone.txt", "link")
    (tmp_path / "gone.txt").unlink()
    return tmp_path


def test_only_what_git_tracks_travels_and_of_it_no_secret_no_documentation_and_nothing_ignored(checkout):
    found = upload.collect(checkout)
    assert {name.as_posix() for name in found.files} == {*TRACKED, "search_spaces/untracked.yaml"}
    assert [name.as_posix() for name in found.withheld] == ["tracked/deploy.pem"]


def test_a_folder_that_became_a_link_is_not_followed(checkout, tmp_path_factory):
    outside = tmp_path_factory.mktemp("home") / "data"
    (checkout / "orchestrator/data").rename(outside)
    (checkout / "orchestrator/data").symlink_to(outside)
    assert PurePath("orchestrator/data/tokenize.py") not in upload.collect(checkout).files


def test_new_code_is_uploaded_and_a_folder_without_git_is_refused(checkout):
    (checkout / "models").mkdir()
    (checkout / "models/gated.py").touch()
    (checkout / "models/weights.bin").touch()
    assert {PurePath("models/gated.py"), PurePath("models/weights.bin")} & {*upload.collect(checkout).files} == {
        PurePath("models/gated.py")
    }
    shutil.rmtree(checkout / ".git")
    with pytest.raises(UserError, match="expected a git checkout"):
        upload.collect(checkout)


@pytest.mark.parametrize(
    "name", ["a/id_ed25519", "KubeConfig.yaml", "my-secrets.json", "db_password", ".ray/x", "auth_token", "AWS-Credentials.csv"]
)
def test_names_of_secrets(name):
    assert is_secret(PurePath(name))


def test_no_file_of_the_repository_is_taken_for_a_secret(repository):
    if not (repository / ".git").exists():
        pytest.skip("no git here")
    found = upload.collect(repository)
    assert found.bytes < 10 * upload.MIB and not found.withheld


def test_too_much_is_refused_before_anything_is_packed(checkout):
    for name, size in (("corpora/de/train.txt", 90), ("corpora/en/train.txt", 20), ("models/x.bin", 1)):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        with (checkout / name).open("wb") as file:
            file.truncate(size * upload.MIB)
        git(checkout, "add", "-N", name)
    (line,) = refused(upload.collect, checkout)
    assert line.startswith("the upload has 111.0 MiB; Ray takes less than 100.0 MiB")


def test_a_spec_that_the_job_could_not_read_is_named(checkout, tmp_path_factory):
    outside = tmp_path_factory.mktemp("home") / "s.yaml"
    outside.write_text("x")
    lines = refused(upload.collect, checkout, [outside, checkout / "tracked/deploy.pem", checkout / "search_spaces/a.yaml"])
    assert [
        text in line for text, line in zip((f"s.yaml: not in the upload of {checkout};", "deploy.pem: not in"), lines, strict=True)
    ] == [True] * 2


def test_the_copy_carries_the_commit(checkout, tmp_path, monkeypatch):
    there = tmp_path / "there"
    monkeypatch.setattr(upload, "git", lambda: (COMMIT, DIRTY))
    with monkeypatch.context() as full:
        full.setattr(shutil, "copy", Mock(side_effect=OSError(28, "No space left on device", "a source")))
        with pytest.raises(OSError, match=str(there)):
            upload.copy(upload.collect(checkout), there, "t0ken")
    upload.copy(upload.collect(checkout), there, "t0ken")
    copied = {path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()}
    assert copied == {*TRACKED, "search_spaces/untracked.yaml", provenance.COMMIT_FILE} - {"sub/.rayignore"}
    monkeypatch.setattr(provenance, "ROOT", there)
    assert provenance.git() == (COMMIT, DIRTY)
    (there / provenance.COMMIT_FILE).write_text(json.dumps({"git_commit": "$(id)", "dirty_sha256": None}))
    assert provenance.git() == (None, None)


def test_a_file_that_holds_the_token_stops_it(checkout, tmp_path):
    (checkout / "search_spaces" / "a.yaml").write_text("note: 0123456789abcdef")
    with pytest.raises(UserError, match=r"search_spaces/a\.yaml: holds the cluster's token"):
        upload.copy(upload.collect(checkout), tmp_path / "x", "0123456789abcdef")
