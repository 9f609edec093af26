"""MLflow's settings, addresses and errors, without importing MLflow."""

import logging
import os
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from orchestrator.errors import UserError
from orchestrator.files.listed import mapped
from orchestrator.specs.positions import display, nearest

ENVIRONMENT = mapped(__file__, "settings.txt")
SCHEMES = ("http", "https", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "sqlite")

_USERINFO = re.compile(r"(?<=://)\S+@")
_SECRET = re.compile(r"(?i)((?:password|passwd|token|secret|api_?key|access_?key)=)[^&;\s]+")
_KNOWN = {
    "Connection refused": "connection refused",
    "Name or service not known|Failed to resolve|getaddrinfo|could not translate host name": "no such host",
    "timed out": "no answer in time",
    r"too many 5\d\d error responses": "the server answers with an error of its own",
    r"(?:error code|\bstatus|^)\s*401\b|\b401 (?:Client|Unauthorized)": "login refused; set MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD",
}
"""Text in a store's error -> message to the user."""


def configure() -> None:
    """Sets MLflow's environment for this process and its children; the user's values win. Must be called before `import mlflow`."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name, level in (("alembic", logging.WARNING), ("urllib3.connectionpool", logging.ERROR)):
        logging.getLogger(name).setLevel(level)


def database(results: Path) -> Path:
    """The file of the store that a ledger has by default."""
    return (results / "mlflow.db").resolve()


def default_uri(results: Path) -> str:
    return sqlite_uri(database(results))


def sqlite_uri(path: Path) -> str:
    """The address of a database file. MLflow makes a folder of the escaped name where the scheme is `sqlite`."""
    escaped = str(path).replace("%", "%25").replace("?", "%3F")
    return f"sqlite{'' if escaped == str(path) else '+pysqlite'}:///{escaped}"


def sqlite_path(uri: str) -> Path | None:
    """The database file of a sqlite URI; None for any other."""
    scheme, _, path = uri.partition(":///")
    return Path(unquote(path)) if scheme in ("sqlite", "sqlite+pysqlite") else None


def is_server(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def checked_uri(uri: str | None) -> str | None:
    """The validated address without a trailing slash; None for none. UserError for an invalid one."""
    if not uri:
        return None
    scheme, mark, rest = uri.partition("://")
    path, problem = sqlite_path(uri), None
    if scheme not in SCHEMES and mark:
        problem = nearest(scheme, list(SCHEMES))
    elif scheme not in SCHEMES or not rest.strip("/") or (scheme == "sqlite" and not rest.startswith("/")):
        problem = "expected http://HOST:PORT, https://HOST, postgresql://HOST/NAME or sqlite:///FILE"
    elif path is not None and "?" in rest:
        problem = "found ?; expected sqlite:///FILE, with %3F for a ? of its path"
    elif path is not None and not path.parent.is_dir():
        problem = f"{display(path.parent)}: no such folder; expected an existing one"
    if problem:
        raise UserError(f"--tracking-uri {redact(uri)!r}: {problem}")
    return uri.rstrip("/") if path is None and is_server(uri) else uri if path is None else sqlite_uri(path)


def with_driver(uri: str) -> str:
    """Names psycopg 2 in a `postgresql://` URI if only that is installed, since SQLAlchemy defaults to psycopg 3."""
    scheme, _, rest = uri.partition("://")
    return f"postgresql+psycopg2://{rest}" if scheme == "postgresql" and find_spec("psycopg") is None else uri


def redact(value: str) -> str:
    """Removes the credentials of URIs and of `password=...` options."""
    return _SECRET.sub(r"\1***", _USERINFO.sub("***@", value))


def reason(error: BaseException) -> str:
    """The cause of a store's error in one line, without credentials."""
    text = redact(str(error)).strip()
    first = (text.splitlines() or [""])[0]
    if isinstance(error, UserError):
        return text
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ModuleNotFoundError) or isinstance(cause := error, ModuleNotFoundError):
        return f"the driver {cause.name} is not installed: pip install psycopg2-binary"
    for words, known in _KNOWN.items():
        if re.search(words, text[:2000]):
            return known
    return f"{type(error).__name__}: {first[:300]}"
