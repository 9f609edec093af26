"""Tables compile as LaTeX, in one and two columns, and nothing stands out of the margin."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ENGINE = next(filter(None, map(shutil.which, ("pdflatex", "xelatex"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(ENGINE is None, reason="no pdflatex or xelatex here (apt: texlive-latex-base, texlive-latex-recommended)"),
]
PAGE = r"""\documentclass[%s]{article}
\usepackage{array,booktabs,graphicx}
\begin{document}
%s
\end{document}
"""


def compiled(text: str, options: str, folder: Path) -> str:
    """The log of LaTeX; fails where it does not compile."""
    (folder / "page.tex").write_text(PAGE % (options, text), encoding="utf-8")
    command = [str(ENGINE), "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "page.log").read_text(errors="replace")


def too_wide(log: str) -> list[float]:
    """How far lines stand out, in points, of those by more than 1 pt."""
    return [pt for pt in map(float, re.findall(r"Overfull \\hbox \((\S+?)pt too wide\)", log)) if pt > 1]


@pytest.mark.parametrize("table", ["dou2018/table1", "shen2018/table1", "mlrf2018/table2", "wei2020/table2"])
def test_a_table_of_the_shipped_results(table: str, cli: Any, tmp_path: Path) -> None:
    where = ["--results", tmp_path / "none", "--cache-dir", tmp_path / "cache"]
    code, text, err = cli("table", table, "--profile", "mini-short", "--format", "latex", *where)
    assert code == 0, err
    for options in ("a4paper", "a4paper,twocolumn"):
        log = compiled(text, options, tmp_path)
        assert too_wide(log) == [] and "Overfull \\vbox" not in log, options


def test_a_line_that_stands_out_is_found(tmp_path: Path) -> None:
    assert too_wide(compiled(r"\noindent\rule{2\linewidth}{1pt}", "a4paper", tmp_path)) != []
