"""Every command of README, docs, CONTRIBUTING and cluster/README exists as it is written there; those that can, run."""

import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import typer
from typer.cli import get_docs_for_click

from orchestrator.cli.main import app, run
from orchestrator.paths import ROOT
from orchestrator.specs.rows import resolve

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "cluster" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLI = typer.main.get_command(app)

PARSED_ALONE = {
    "analyse": "needs every row of a table trained: tests/integration/test_smoke_matrix.py",
    "data add|new": "needs files of one's own: tests/unit/data/test_own_corpus.py",
    "data get": "downloads a corpus",
    "plan .*fusion-grid": "plans thousands of rows: tests/specs/test_fusion_grid.py",
    "noise": "trains one row with 20 seeds: tests/unit/report/test_noise_command.py",
    "plan .*--probe": "measures training steps: tests/integration/test_cost.py",
    "results add": "needs translations of another system: tests/unit/lifecycle/test_external.py",
    "verdict .*--session": "needs a table with claims: tests/unit/report/test_sessions.py",
    "reconcile": "writes to an MLflow server: tests/unit/tracking",
    "run dou2018/table1/row9|run sweeps/": "trains as the row of README does",
    "run .*--data-dir": "as published: needs WMT14 and a GPU",
    "run ROW": "an example without a row",
    "run .*corpus=talks": "needs a corpus of the user's: tests/unit/data/test_own_corpus.py",
    "submit": "needs a Ray cluster: tests/integration/test_cluster_entry_points.py",
    "(plan|show) .*tuned": "needs a table of the user's: tests/integration/test_tuned_sweep.py",
    "sweep": "trains every row of a table: tests/integration/test_smoke_matrix.py",
    "translate sweeps/multi30k-first": "needs Multi30k",
    "export sweeps/multi30k-first": "needs Multi30k",
    "data (check|report|clean) (multi30k|talks)": "needs a corpus: tests/unit/data/test_clean.py",
    "ui": "a server that stays: tests/browser/test_mlflow_ui.py",
}
"""What is only parsed, as patterns of whole commands, with the reason."""
EXIT_CODES = {"explain": 4, "verdict": 7}
"""Documented codes other than 0: the combination is no row of the grid; nothing was run that decides a claim."""


STANDS_FOR = {"DIR": "data", "FOLDER": "exported", "ROW": "quickstart/fusion/baseline", "TABLE": "dou2018/table1"}
STANDS_FOR["s3://bucket/prefix"] = "results"


class Command(NamedTuple):
    page: str
    arguments: tuple[str, ...]
    stdin: str = ""

    def __str__(self) -> str:
        return " ".join(self.arguments)


def documented() -> list[Command]:
    """Each `nmt-ablate` call once: in blocks of code, in examples of docs/commands.md, and in backticks with an argument."""
    found: dict[tuple[str, ...], Command] = {}
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            code = re.fullmatch(r"(?: {4,}|\$ |#   |Example:  |[\w ]+:  +)(?:\d\. +)?(.*nmt-ablate .*)", line)
            generated = page.name == "commands.md" and not line.startswith("Example:")
            texts = [] if generated else [code[1]] if code else re.findall(r"`([^`]*nmt-ablate [^`]+)`", line)
            for text in texts:
                for command in calls(page.name, text):
                    found.setdefault(command.arguments, command)
    return list(found.values())


def calls(page: str, text: str) -> list[Command]:
    """The calls in one line of shell; `[optional]` parts, comments and environment variables are left out."""
    text = re.sub(r"\s#.*$|\s{4,}\S.*$", "", text)
    text = re.sub(r"\s\[[^\]]*\]|\s\.\.\.", "", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split, lexer.commenters = True, ""
    words, found, stdin = list(lexer), [], ""
    parts: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("|&<>;"):
            parts.append([word])
        else:
            parts[-1].append(word)
    for part in parts:
        redirected = part[:1] in (["<"], [">"])
        names = [at for at, word in enumerate(part) if word == "nmt-ablate" or word.endswith("/nmt-ablate")]
        if names and not redirected and part[names[0] + 1 :]:
            found.append(Command(page, tuple(part[names[0] + 1 :]), stdin))
        if part[:1] == ["echo"]:
            stdin = " ".join(part[1:]) + "\n"
    return found


COMMANDS = documented()


def resolved(arguments: tuple[str, ...]) -> tuple[click.Command, list[str], list[str]]:
    """The command, its name's words, and what is left for it to parse."""
    command: Any = CLI
    words = list(arguments)
    names: list[str] = []
    while hasattr(command, "commands") and words:
        assert words[0] in command.commands, f"no such command: {' '.join([*names, words[0]])}"
        command = command.commands[words[0]]
        names.append(words.pop(0))
    return command, names, words


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 50 and {"README.md", "CONTRIBUTING.md", "sweeps.md", "commands.md"} <= {command.page for command in COMMANDS}
    assert calls("p", 'echo "ein Satz" | nmt-ablate translate a/b  # c') == [Command("p", ("translate", "a/b"), "ein Satz\n")]
    both = [command.arguments for command in calls("p", "nmt-ablate ablate a > b.yaml && .venv/bin/nmt-ablate sweep b.yaml [--x]")]
    assert both == [("ablate", "a"), ("sweep", "b.yaml")]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_documented_command_parses(command: Command) -> None:
    found, names, words = resolved(command.arguments)
    if words or not any(parameter.required for parameter in found.params):  # else prose that names a command
        found.make_context(" ".join(names), [STANDS_FOR.get(word, word) for word in words])


def is_of(command: Command, pattern: str) -> bool:
    return re.match(rf"{pattern}( |$|\b)", str(command)) is not None


def test_no_reason_is_left_over() -> None:
    assert [pattern for pattern in PARSED_ALONE if not any(is_of(command, pattern) for command in COMMANDS)] == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder to work in, whose ledger holds two rows of the quickstart under the smoke profile."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "data").mkdir()
    for name in ("search_spaces", "cluster"):
        (folder / name).symlink_to(ROOT / name)
    places = ["--results", str(folder / "results"), "--cache-dir", str(folder / "cache")]
    for row, seed in (("baseline", "1"), ("baseline", "2"), ("dlcl", "1")):
        assert run(["run", f"quickstart/fusion/{row}", "--seed", seed, "--profile", "smoke", "--no-tracking", *places]) == 0
    assert run(["results", "export", str(folder / "packed"), *places[:2]]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", [one for one in COMMANDS if not any(is_of(one, pattern) for pattern in PARSED_ALONE)], ids=str)
def test_a_documented_command_runs(command: Command, trained, tmp_path, monkeypatch, capsys) -> None:
    """As written, in the small: under the smoke profile, in a results folder of the test, with a trained row for ROW."""
    found, names, words = resolved(command.arguments)
    if not words and any(parameter.required for parameter in found.params):
        return  # prose that names a command
    options = {option for parameter in found.params for option in parameter.opts}
    arguments = [STANDS_FOR.get(word, word) for word in command.arguments]
    added = {"--results": "results", "--cache-dir": "cache", "--profile": "smoke", "--no-tracking": None}
    for option, value in added.items():
        if option in arguments and option == "--results":
            arguments[arguments.index(option) + 1] = "results"
        elif option in options and option not in arguments:
            arguments += [option] if value is None else [option, value]
    monkeypatch.chdir(trained)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(command.stdin.encode())))
    if names[0] == "results" and names[1:] in (["export"], ["import"]):
        arguments[2] = str(tmp_path / "new") if names[1] == "export" else "packed"
    expected = next((code for start, code in EXIT_CODES.items() if str(command).startswith(start)), 0)
    assert run(arguments) == expected, f"{arguments}: {capsys.readouterr().err[-1500:]}"


def test_documented_targets_and_scripts_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    bad, seen = [], 0
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            made = re.findall(r"(?:^ {4,}|`)make ([a-z-]+)", line)
            bad += [f"{page.name}: make {target}" for target in made if target not in targets]
            scripts = re.findall(r"\b((?:cluster|benchmarks)/[\w/-]+\.(?:sh|py|yaml))((?: +--?[\w-]+| +[\w./-]+)*)", line)
            for script, rest in scripts:
                path = ROOT / script
                if path.stem.isupper():  # a placeholder
                    continue
                if not path.is_file():
                    bad.append(f"{page.name}: {script}")
                elif path.parts[-2] == "benchmarks":
                    shared = "".join((path.parent / name).read_text(encoding="utf-8") for name in ("competition.py", path.name))
                    bad += [f"{page.name}: {script} {option}" for option in re.findall(r"--[\w-]+", rest) if f'"{option}"' not in shared]
            seen += len(made) + len(scripts)
    assert bad == [] and seen > 30


def test_the_minimal_table_is_small(tmp_path, monkeypatch) -> None:
    (text, *_) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "search_spaces" / "mine").mkdir(parents=True)
    (tmp_path / "search_spaces" / "mine" / "dense.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert [(row.spec.model.d_model, row.spec.train.max_steps) for row in resolve("mine/dense")] == [(64, 108)] * 2


def test_the_page_is_made_from_help() -> None:
    made = get_docs_for_click(obj=CLI, ctx=typer.Context(CLI), name="nmt-ablate", title="Commands")
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page.strip() == made.strip(), "run make docs"
