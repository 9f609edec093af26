"""MLflow's application whose pages open on Model training, for `nmt-ablate ui`: a plugin of `mlflow server --app-name nmt-ablate`.

MLflow 3.17 shows every page on its GenAI side, where a run is an evaluation, until a browser has chosen another one, whatever the
experiment's kind, and opens a chat with a language model beside it. The browser keeps both choices per server in its local storage; the
page makes them where the user has not.
"""

from __future__ import annotations

import json
import os

from flask import Response, request
from mlflow.server import app as _pages
from mlflow.server.fastapi_app import app

from orchestrator.tracking.ui import COLOURS

__all__ = ["app"]

CHOICES = {"mlflow.workflowType_v1": '"machine_learning"', "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true"}
"""Keys and values in the browser's local storage."""
GROUPS = "experimentRunColors"
"""Key of the colours of groups of runs, which the UI otherwise draws from their names, some twice."""


def script(colours: dict[str, str]) -> str:
    """What the page runs first. colours: of rows, by name."""
    groups = json.dumps({f"tag.row.{row}": colour for row, colour in colours.items()}).replace("<", "\\u003c")
    lines = [f"localStorage.getItem('{key}') ?? localStorage.setItem('{key}', '{value}');" for key, value in CHOICES.items()]
    known = f"JSON.parse(localStorage.getItem('{GROUPS}') ?? '{{}}')"
    lines.append(f"localStorage.setItem('{GROUPS}', JSON.stringify(Object.assign({groups}, {known})));")
    return f"<script>try {{ {' '.join(lines)} }} catch (error) {{}}</script>"


_SCRIPT = script(json.loads(os.environ.get(COLOURS, "{}"))).encode()


@_pages.after_request
def _choose(response: Response) -> Response:
    if request.path == "/" and response.mimetype == "text/html" and response.status_code == 200:
        response.direct_passthrough = False
        page = response.get_data()
        response.set_data(page.replace(b"<head>", b"<head>" + _SCRIPT, 1))
        response.headers.pop("ETag", None)
        response.headers["Cache-Control"] = "no-store"
    return response
