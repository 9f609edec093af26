"""Lists and tables in text files beside the modules that read them: an entry a line; `#` starts a comment."""

from pathlib import Path


def listed(module: str, name: str) -> list[str]:
    """Returns the lines of the file `name` in the folder of a module. module: its `__file__`."""
    lines = Path(module).with_name(name).read_text(encoding="utf-8").splitlines()
    return [entry for line in lines if (entry := line.partition("#")[0].strip())]


def mapped(module: str, name: str) -> dict[str, str]:
    """Returns lines `KEY: VALUE` as a dictionary in their order."""
    return dict(entry.split(": ", 1) for entry in listed(module, name))
