"""The benchmark of recurrences answers in one JSON object."""

import json

import pytest
import recurrence


@pytest.mark.slow
def test_every_form_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["recurrence.py", "--json", "--size", "tiny", "--tokens", "100", "--rounds", "1"])
    recurrence.main()
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    wanted = {"birnn recipe: scan", "biarn 8 torch: scan", "biarn J recipe: scan", "birnn torch: nn.GRU, packed"}
    assert wanted <= set(rows)
    assert all(row["ms"] > 0 for row in rows.values())
    assert all(row["to_scan"] == 1 for what, row in rows.items() if what.endswith("scan"))
