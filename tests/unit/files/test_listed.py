import tomllib

from orchestrator.files.listed import listed, mapped
from orchestrator.paths import ROOT


def test_comments_and_empty_lines_are_no_entries_and_a_value_may_have_a_colon(tmp_path) -> None:
    (tmp_path / "list.txt").write_text("# about\nb: of two: words  # why\n\na: 1\n", encoding="utf-8")
    assert listed(str(tmp_path / "module.py"), "list.txt") == ["b: of two: words", "a: 1"]
    assert list(mapped(str(tmp_path / "module.py"), "list.txt").items()) == [("b", "of two: words"), ("a", "1")]


def test_every_data_file_beside_a_module_is_installed() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {path for package, names in patterns.items() for name in names for path in (ROOT / package.replace(".", "/")).glob(name)}
    files = {path for path in (ROOT / "orchestrator").rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files and files <= installed
