"""Headless Chromium over the DevTools protocol, which waits for page content instead of fixed times."""

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1600,900"]


class Page:
    """One browser tab. The methods that wait raise TimeoutError with the page's text. events: messages of the domains that are enabled."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self.errors: list[str] = []
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async for message in self._socket:
            answer = json.loads(message.data)
            if answer.get("method") == "Network.responseReceived" and answer["params"]["response"]["status"] >= 500:
                self.errors.append(f"{answer['params']['response']['status']} {answer['params']['response']['url']}")
            if "method" in answer:
                self.events.append(answer)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise RuntimeError("the browser is gone")

    async def evaluate(self, script: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url="about:blank")  # else a URL that differs only after the # does not reload the page
        await self.call("Page.navigate", url=url)

    async def text(self) -> str:
        return str(await self.evaluate("document.body ? document.body.innerText : ''"))

    async def until(self, condition: str, limit: float = 120.0) -> float:
        """Waits until the JavaScript `condition` holds and returns the seconds waited. Raises TimeoutError after `limit` seconds."""
        started = time.monotonic()
        while True:
            with contextlib.suppress(RuntimeError):  # the page is being replaced
                if await self.evaluate(f"Boolean({condition})"):
                    return time.monotonic() - started
            if time.monotonic() - started > limit:
                raise TimeoutError(f"{condition}: not within {limit:.0f} s; the page says: {(await self.text())[:2000]}")
            await asyncio.sleep(0.1)

    async def screenshot(self, path: Path) -> None:
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Page]:
    """Starts Chromium with an empty profile and stops it on exit.

    Raises FileNotFoundError if it is not installed and TimeoutError if it does not start.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise FileNotFoundError("chromium is not installed (apt-get install chromium)")
    folder = tempfile.mkdtemp(prefix="nmt-browser-")
    command = [chromium, *QUIET, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port, deadline = Path(folder) / "DevToolsActivePort", time.monotonic() + 120
        while not port.exists() or not port.read_text().strip():
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError("Chromium did not start")
            await asyncio.sleep(0.1)
        number = int(port.read_text().split()[0])
        async with aiohttp.ClientSession() as session:
            pages: list[dict[str, Any]] = []
            while not pages:
                async with session.get(f"http://127.0.0.1:{number}/json/list") as answer:
                    pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                await page.call("Page.enable")
                yield page
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
