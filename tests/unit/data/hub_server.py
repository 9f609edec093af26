"""A stand-in for the Hugging Face Hub on loopback: the routes of its API and its files that `data get` asks for."""

import contextlib
import hashlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

COMMIT = "5" * 40


def parquet_of(pairs: Sequence[tuple[str | None, str | None]], nested: bool = True) -> bytes:
    rows = [{"de": de, "en": en} for de, en in pairs]
    out = io.BytesIO()
    parquet.write_table(pa.table({"translation": rows}) if nested else pa.Table.from_pylist(rows), out)
    return out.getvalue()


class Hub(ThreadingHTTPServer):
    """files: path in the dataset `me/x` -> content; faults: part of a route -> the faults of its next answers, in turn.

    A fault is a status, `cut` (half of the file, then the end of the connection), `stall` (half, then nothing) or `wrong` (other bytes).
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
        faults = next((own for part, own in self.server.faults.items() if part in route and own), None)
        fault = faults.pop(0) if faults else 200
        dataset, _, rest = route.partition("/me/x/")
        if isinstance(fault, int) and fault != 200:
            self._send(fault, b"{}")
        elif dataset == "/api/datasets" and rest == "revision/refs/convert/parquet":
            self._send(200, json.dumps({"id": "me/x", "sha": COMMIT}).encode())
        elif dataset == "/api/datasets" and rest.startswith(f"tree/{COMMIT}/"):
            folder = rest.removeprefix(f"tree/{COMMIT}/") + "/"
            found = [self._item(path) for path in self.server.files if path.startswith(folder)]
            self._send(200 if found else 404, json.dumps(found).encode())
        elif dataset == "/datasets" and (content := self.server.files.get(rest.removeprefix(f"resolve/{COMMIT}/"))) is not None:
            self._send(200, content, str(fault))
        else:
            self._send(404, b"{}")

    def _item(self, path: str) -> dict[str, object]:
        content = self.server.files[path]
        lfs = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return {"type": "file", "oid": "0" * 40, "size": len(content), "lfs": lfs, "path": path}

    def _send(self, status: int, content: bytes, fault: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status in (429, 503):
            self.send_header("Retry-After", "0")
        self.end_headers()
        if fault == "wrong":
            content = content[:-9] + b"x" * 9
        self.wfile.write(content[: len(content) // 2] if fault in ("cut", "stall") else content)
        if fault == "stall":
            self.wfile.flush()
            self.server.stalls.set()
            time.sleep(10)


@contextlib.contextmanager
def serving(server=None) -> Iterator:
    """A server at work, a `Hub` if none is given."""
    with server or Hub() as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()
