"""The report's page as a browser shows it from disk: wide and dark, narrow and light. SCREENSHOTS names a folder to look at."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.report.support import many_rows

if TYPE_CHECKING:
    from benchmarks.devtools import Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
BASE = "fusion-hierarchical-both-sides-0"


@pytest.fixture(scope="module")
def page(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    file, results = many_rows(folder, 10, 3)
    assert cli("report", file, "--baseline", BASE, "--results", results, "--cache-dir", folder / "cache", "--to", folder)[0] == 0
    return folder / "demo-many.html"


@pytest.mark.usefixtures("chromium")
@pytest.mark.parametrize(("width", "dark"), [(1400, True), (800, False), (400, False)])
def test_the_page_in_a_browser(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    asyncio.run(look(page, Path(os.environ.get("SCREENSHOTS", tmp_path)), width, dark=dark))


@pytest.mark.usefixtures("chromium")
def test_the_page_of_a_corpus(cli: Any, tmp_path: Path) -> None:
    page = tmp_path / "toy.html"
    assert cli("data", "report", "toy-smoke", "--cache-dir", tmp_path / "cache", "--to", page)[0] == 0
    asyncio.run(look(page, Path(os.environ.get("SCREENSHOTS", tmp_path)), 800, dark=True, of_table=False))


async def look(page: Path, shots: Path, width: int, *, dark: bool, of_table: bool = True) -> None:
    from benchmarks.devtools import browser

    async with browser() as tab:
        for domain in ("Runtime", "Log", "Network"):
            await tab.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await tab.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        await tab.open(page.as_uri())
        await tab.until("document.querySelector('.chart') && !document.querySelector('.chart:not(:has(svg))')")
        await check(tab, width, dark=dark)
        if of_table:
            await check_table(tab)
        height = await tab.evaluate("document.documentElement.scrollHeight")
        await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        await tab.screenshot(shots / f"{page.stem}-{width}.png")
        told = [each["method"] for each in tab.events]
        assert not {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"} & {*told}, tab.events
        asked = {each["params"]["request"]["url"] for each in tab.events if each["method"] == "Network.requestWillBeSent"}
        assert asked - {"about:blank"} == {page.as_uri()}


async def check(tab: "Page", width: int, *, dark: bool) -> None:
    value = tab.evaluate
    await value("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert await value("[document.documentElement.scrollWidth, document.body.scrollWidth]") == [width, width], "the body does not overflow"
    paper = await value("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
    missing = await value("[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.getElementById(a.hash.slice(1))).length")
    assert missing == 0 and await value("document.querySelectorAll('a[href]:not([href^=\"#\"])').length") == 0


async def check_table(tab: "Page") -> None:
    value = tab.evaluate
    first = "document.querySelector('.sortable tbody tr').cells[0].textContent"
    assert await value(first) == BASE
    await value("document.querySelector('th.bleu button').click()")
    assert await value(first) == "fusion-linear-both-sides-9"
    assert await value("document.querySelectorAll('th.bleu[aria-sort=descending]').length") == 1
    await value("document.querySelector('th.bleu button').click()")
    assert await value(first) == BASE

    labels = await value("[...document.querySelectorAll('[data-spec=curves] .role-legend-label text')].map(each => each.textContent)")
    assert len(labels) == 8 and all(label.startswith("fusion-") and "…" not in label for label in labels)
    inside = "[...document.querySelectorAll('.role-legend-label text')].every(t => t.getBoundingClientRect().right <= innerWidth)"
    assert await value(inside), "no label is cut"
    paths = "[...document.querySelectorAll('[data-spec=curves] .role-legend-symbol path')]"
    assert await value(f"{paths}.map(each => each.getAttribute('opacity') ?? '1')") == ["1"] * 8
