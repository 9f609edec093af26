"""docs/commands.md is what the commands say of themselves (`make docs`)."""

import typer
from typer.cli import get_docs_for_click

from orchestrator.cli.main import app


def test_the_page_is_made_from_help(repository) -> None:
    command = typer.main.get_command(app)
    made = get_docs_for_click(obj=command, ctx=typer.Context(command), name="nmt-ablate", title="Commands")
    page = (repository / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page.strip() == made.strip(), "run make docs"
