"""`nmt-ablate report` as a command, and the page that `sweep` writes at its end."""

from pathlib import Path

import pytest

from orchestrator.cli.commands import report as command
from orchestrator.report.page import render
from orchestrator.tracking.store import MlflowStore
from orchestrator.tracking.sweeps import reconcile
from tests.unit.conftest import MINIMAL

TABLE = MINIMAL + "  base: {}\n  wide: {model: {d_ff: 48}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Two tables of one's own in a folder; no page needs the real script of the charts."""
    monkeypatch.setattr(render, "script", lambda: "")
    (tmp_path / "mine").mkdir()
    for name in ("one", "two"):
        (tmp_path / "mine" / f"{name}.yaml").write_text(TABLE.replace("table: small", f"table: {name}"), encoding="utf-8")
    return tmp_path


def test_targets_of_all_kinds_make_one_page(cli, folder: Path) -> None:
    def page(*targets: object) -> Path:
        code, out, err = cli("report", *targets, "--results", folder / "results", "--cache-dir", folder / "cache")
        assert code == 0, err
        return Path(out.strip())

    one = folder / "mine" / "one.yaml"
    assert page(one).name == "demo-one.html" and page(f"{one}#wide").name == "demo-one-wide.html"
    several = page("sweeps/depth", one, one, folder / "mine", "--profile", "smoke")
    assert several == folder / "results" / "reports" / "sweeps-depth+demo-one+mine@smoke.html"
    text = several.read_text()
    assert [text.count(f'<h2 class="table-name" id="{at}headline">{name}</h2>') for at, name in SECTIONS] == [1, 1, 1]
    assert f"nmt-ablate table {one} --profile smoke" in text, "a file that no address finds is named by its path"
    assert cli("report", "sweeps/no-such", "--results", folder / "results")[0] == 2
    for number in (long := range(3)):
        (folder / f"{number}.yaml").write_text(TABLE.replace("table: small", f"table: {'x' * 60}{number}"), encoding="utf-8")
    assert len({page(folder / "0.yaml", folder / f"{number}.yaml") for number in long}) == 3, "names are not only cut"


SECTIONS = [("", "sweeps/depth"), ("t1-", "demo/one"), ("t2-", "demo/two")]


@pytest.mark.slow
def test_a_page_of_some_rows_of_a_shipped_table(cli, folder: Path) -> None:
    """Whole pages, of several tables: test_results_page."""
    places = ("--profile", "mini-short", "--results", folder / "results", "--cache-dir", folder / "cache")
    table = ("dou2018/table1/row1,row1-continued,row5", *places)
    continued = ("--baseline", "row1-continued", "--second-corpus", "tatoeba-de-en")
    assert cli("report", *table, "--to", folder / "own.md", "--markdown", *continued)[0] == 0
    text = (folder / "own.md").read_text()
    assert "--baseline row1-continued\n```" in text and '<img src="own-claims.svg"' in text
    assert "| dou2018/table1/row5 " in text, "one table has its claims beside those of a second corpus"
    for words, message in (
        (("--to", folder / "new.md"), "expected a folder or a .html file"),
        (("--text", folder / "own.md"), "found no --markdown"),
        (("--markdown", "--text", folder / "no.md"), "No such file"),
        (("--second-corpus", "tatoeba"), "tatoeba-de-en"),
    ):
        code, _, err = cli("report", *table, *words)
        assert code == 2 and message in err


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_a_sweep_ends_with_its_page(cli, folder: Path, monkeypatch) -> None:
    results = folder / "results"
    sweep = ("sweep", folder / "mine" / "one.yaml", "--engine", "local", "--results", results, "--cache-dir", folder / "cache")
    code, out, err = cli(*sweep)
    path = results / "reports" / "demo-one.html"
    assert code == 0 and f"the page:   {path}" in out and "warning" not in err
    assert "2 rows, one seed, on toy-smoke" in path.read_text()
    assert _logged(results) == path.read_bytes()

    path.write_text("another")
    reconcile(results)
    assert _logged(results) == b"another", "`reconcile` brings a page that is new"

    monkeypatch.setattr(render, "page", lambda *_, **options: 1 / 0)
    code, out, err = cli(*sweep)
    assert code == 0 and "the page:" not in out and "the table:" in out
    (warning,) = [line for line in err.splitlines() if "warning" in line]
    assert warning == "warning: the page of the results could not be written (ZeroDivisionError: division by zero)"
    monkeypatch.setattr(command, "MOST_ROWS", 0)
    code, out, err = cli(*sweep)
    assert code == 0 and "the page:" not in out and "no page is written" in err


def _logged(results: Path) -> bytes:
    (parent,) = MlflowStore(results).find({"nmt.sweep": "demo-one", "nmt.kind": "sweep"})
    return (Path(str(parent.info.artifact_uri).removeprefix("file://")) / "report.html").read_bytes()
