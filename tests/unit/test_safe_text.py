"""Control characters and markup from data or labels reach no terminal and no page as what they are; stored files keep them."""

import io
import json
from dataclasses import replace
from typing import Any

from rich.console import Console

from orchestrator import safe_text
from orchestrator.ledger.results import Ledger
from orchestrator.lifecycle.export_row import model_card
from orchestrator.report.formats import FORMATS, several
from orchestrator.report.table import Line, Table
from orchestrator.specs.rows import resolve
from orchestrator.specs.show import to_yaml
from orchestrator.sweeps.forecast import RunProgress
from orchestrator.sweeps.live import LiveProgress
from orchestrator.sweeps.status import runs_table, sweep_status

HOSTILE = "\x1b]0;t\x07\x1b[31mred\x9b2J\u202eevil\u2066 <script>x</script> ![p](http://h) <img src=x> [bold]"


def clean(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_no_format_of_a_table_holds_them() -> None:
    line = Line(f"demo/small/{HOSTILE}", HOSTILE, "quoted", {"bleu": 27.0}, None, HOSTILE)
    made = Table(f"demo/small{HOSTILE}", ["bleu", HOSTILE], [line], [HOSTILE])
    shown = {form: several([made], form) for form in (*FORMATS, "json")}
    for form, text in shown.items():
        assert clean(text) and "evil" in text, form
    assert "![p](" not in shown["md"] and "<script" not in shown["md"].replace("\\<", "")
    assert json.loads(shown["json"])["rows"][0]["label"] == HOSTILE
    assert json.loads(several([made, made], "json"))["tables"][1]["notes"] == [HOSTILE] and clean(several([made, made], "json"))


def test_show_escapes_them_and_can_be_read_again(spec, tmp_path) -> None:
    (row,) = resolve(spec(f"  one: {{label: {json.dumps(HOSTILE)}}}\n"))
    text = to_yaml(row)
    assert clean(text) and row.label == HOSTILE
    (tmp_path / "again.yaml").write_text(text)
    assert resolve(tmp_path / "again.yaml")[0].label == HOSTILE


def test_status_shows_escapes(fake_results, cli) -> None:
    fake_results.sweep([fake_results.row("a") | {"id": f"x/y/{HOSTILE}"}], name=HOSTILE)
    (found,) = sweep_status(Ledger(fake_results.root))
    screen = io.StringIO()
    Console(file=screen, width=200).print(runs_table(found.runs, replace(found, file=HOSTILE).summary))
    assert clean(screen.getvalue()) and "\\u202e" in screen.getvalue()
    for options in ([], ["--json"]):
        code, out, _ = cli("status", "--results", fake_results.root, *options)
        assert code == 0 and clean(out)


def test_progress_lines_show_escapes(tmp_path) -> None:
    screen = io.StringIO()
    live = LiveProgress([], Console(file=screen, width=400), Ledger(tmp_path))
    live._tell("row:1", RunProgress("row", 1, "0" * 64, ()), {"step": 1, "warning": f"{HOSTILE}[/nothing]"})
    assert clean(screen.getvalue()) and "[/nothing]" in screen.getvalue()


def test_a_model_card_has_no_tags_images_or_cells_of_the_data() -> None:
    about: dict[str, Any] = {"id": HOSTILE, "label": HOSTILE, "seed": 1, "languages": [HOSTILE, HOSTILE], "assumed": [HOSTILE]}
    about |= {"facts": {"corpus": HOSTILE, "started from": HOSTILE}, "capsule": {"a": HOSTILE, HOSTILE: ["|"]}}
    card = model_card(about | {"scores": {HOSTILE: {"bleu": 1.0, "signature": f"`{HOSTILE}"}}}, "0" * 64)
    assert clean(card) and "evil" in card
    assert not any(text in card.replace("\\<", "").replace("\\[", "") for text in ("<script", "<img", "![p]", "</script"))


def test_errors_and_notes_show_escapes(capsys) -> None:
    safe_text.log(HOSTILE)
    assert clean(capsys.readouterr().err)
    assert json.loads(safe_text.json_text({HOSTILE: "\u202e\ud800é"})) == {HOSTILE: "\u202e\ud800é"}
    assert safe_text.json_text({"a": "\u202eé"}, separators=(",", ":")) == '{"a":"\\u202eé"}'
