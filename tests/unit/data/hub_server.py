"""A stand-in for the Hugging Face Hub on loopback: the routes of its API and its files that `data get` asks for."""

import contextlib
import hashlib
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock
from urllib.parse import unquote

import pyarrow as pa
from huggingface_hub import constants
from pyarrow import parquet

COMMIT = "5" * 40


def parquet_of(pairs: Sequence[tuple[str | None, str | None]], nested: bool = True) -> bytes:
    rows = [{"de": de, "en": en} for de, en in pairs]
    out = io.BytesIO()
    parquet.write_table(pa.table({"translation": rows}) if nested else pa.Table.from_pylist(rows), out)
    return out.getvalue()


class Hub(ThreadingHTTPServer):
    """files: path in the dataset `me/x` -> content; faults: part of a route -> the faults of its next answers, in turn.

    A fault is a status, `html` (no JSON) or, for the content of a file, `cut` (half, then the end of the connection), `stall` (half, then
    nothing), `wrong` (other bytes) or `short` (half, announced as all).
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[int | str]] = {}
        self.asked: list[str] = []
        self.stalls = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


class TextServer(ThreadingHTTPServer):
    """Answers a path with `text(path)` after it announced `more` bytes, and counts how often it is asked."""

    class Lines(Quiet):
        def do_GET(self) -> None:
            self.server.asked += 1
            body = self.server.text(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + self.server.more))
            self.end_headers()
            self.wfile.write(body)

    def __init__(self, text: Callable[[str], bytes], more: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), self.Lines)
        self.text, self.more, self.asked, self.url = text, more, 0, f"http://127.0.0.1:{self.server_port}"


class Answers(Quiet):
    server: Hub

    def do_GET(self) -> None:
        route = unquote(self.path.partition("?")[0])
        self.server.asked.append(route)
        faults = next((own for part, own in self.server.faults.items() if part in route and own), [200])
        fault = faults.pop(0) if self.command == "GET" or isinstance(faults[0], int) else 200
        path = route.removeprefix(f"/datasets/me/x/resolve/{COMMIT}/")
        if isinstance(fault, int) and fault != 200:
            self._send(fault, b"{}")
        elif route == "/api/datasets/me/x/revision/refs/convert/parquet":
            found = {"id": "me/x", "sha": COMMIT, "siblings": [self._item(name) for name in self.server.files]}
            self._send(200, b"<html>" if fault == "html" else json.dumps(found).encode())
        else:
            self._send(200 if path in self.server.files else 404, self.server.files.get(path, b"{}"), str(fault))

    do_HEAD = do_GET

    def _item(self, path: str) -> dict[str, object]:
        content = self.server.files[path]
        lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return {"rfilename": path, "blobId": "0" * 40, "size": len(content), "lfs": lfs}

    def _send(self, status: int, content: bytes, fault: str = "200") -> None:
        half, digest = content[: len(content) // 2], hashlib.sha256(content).hexdigest()
        size = len(half if fault == "short" else content)
        self.send_response(status)
        for name, value in {"Content-Length": size, "Retry-After": 0, "ETag": f'"{digest}"', "X-Repo-Commit": COMMIT}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write({"200": content, "wrong": content[:-9] + b"x" * 9}.get(fault, half))
        if fault == "stall":
            self.wfile.flush()
            self.server.stalls.set()
            threading.Event().wait(10)


@contextlib.contextmanager
def serving(server=None) -> Iterator:
    """A server at work, a `Hub` if none is given."""
    with server or Hub() as found, mock.patch.object(constants, "HF_HUB_OFFLINE", False):
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()
