"""Names of files that are never uploaded, even where git tracks them."""

from __future__ import annotations

import fnmatch
from pathlib import PurePath

FOLDERS = frozenset({".git", ".ssh", ".aws", ".azure", ".kube", ".gnupg", ".ray", ".docker", ".config", ".venv", ".peers"})
NAMES = (
    ".env",
    ".env.*",
    "*.env",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".git-credentials",
    ".htpasswd",
    ".npmrc",
    ".pypirc",
    "kubeconfig*",
    "service-account*.json",
)
WORDS = ("token", "secret", "passw", "credential")
CODE = (".py", ".pyi", ".sh", ".md")
"""Source files and documents may have such a word in their name: `tokenize.py` is no secret."""


def is_secret(path: PurePath) -> bool:
    """Returns whether a file's name marks it as a secret. path: relative to the upload."""
    name = path.name.lower()
    if any(part.lower() in FOLDERS for part in path.parts):
        return True
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in NAMES):
        return True
    return not name.endswith(CODE) and any(word in name for word in WORDS)
