"""The rules that keep the layout: import directions, module sizes, nothing that runs foreign code, nothing about one machine."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from orchestrator.paths import ROOT

SOURCE = sorted(path for top in ("models", "orchestrator") for path in (ROOT / top).rglob("*.py"))
SCRIPTS = sorted(path for top in ("cluster", "benchmarks") for path in (ROOT / top).rglob("*.py"))
OURS = {"models", "orchestrator", "cluster", "tests", "benchmarks"}
MAX_LINES = 300

# Spelled in two parts, so that this file passes its own test.
HOSTS = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com", "deb." + "debian.org"]
PLACES = ["/wo" + "rk/", "/." + "library", "/opt/" + "pypi", "/opt/" + "wheels"]

UNSAFE_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "torch.save"}
UNSAFE_CALLS |= {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names of modules and of what is taken from them, with lines; inside functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(path.relative_to(ROOT).parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (package, node.module)))
            yield from ((name, node.lineno) for name in (module, *(f"{module}.{alias.name}" for alias in node.names)))


def test_what_imports_what() -> None:
    """`models` imports torch alone (in one file Triton, which torch brings); ray and mlflow stay in one package each; nothing imports
    tests, scripts or benchmarks."""
    bad = []
    for path in SOURCE + SCRIPTS:
        name = name_of(path)
        for module, line in imports(path):
            top = module.partition(".")[0]
            if name.startswith("models/"):
                allowed = top in ("models", "torch") or top in sys.stdlib_module_names
                allowed |= top == "triton" and name == "models/short_attention.py"
            else:
                allowed = top not in OURS - {"models", "orchestrator"}
            if top == "ray":
                allowed &= name.startswith("orchestrator/engines/ray/")
            if top == "mlflow":
                allowed &= name.startswith("orchestrator/tracking/")
            if not allowed:
                bad.append(f"{name}:{line}: {module}")
    assert not bad, "\n".join(bad)


ORDER = ["", "files", "specs", "ledger", "data", "scoring", "tracking", "decoding", "training", "sweeps", "engines", "cost"]
ORDER += ["report", "tuning", "lifecycle", "analysis", "cli", "api"]
"""Packages of `orchestrator`, lowest first: one imports only from itself and from those before it."""


def own_imports() -> dict[str, set[tuple[str, int]]]:
    """Module of `orchestrator` -> (module that it imports, line); of a package, what is taken from it if that is a module."""
    named = {name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in SOURCE}
    named = {name: path for name, path in named.items() if name.partition(".")[0] == "orchestrator"}
    found = {name: {(module, line) for module, line in imports(path) if module in named} for name, path in named.items()}
    for modules in found.values():
        modules -= {
            (module, line) for module, line in modules if any(at == line and other.startswith(f"{module}.") for other, at in modules)
        }
    return found


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (ROOT / "orchestrator" / parts[1]).is_dir() else ""


def test_packages_import_downwards() -> None:
    assert sorted(ORDER[1:]) == sorted(path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py"))
    bad = [
        f"{name}:{line}: {module}"
        for name, modules in own_imports().items()
        for module, line in sorted(modules)
        if name != "orchestrator.__main__" and ORDER.index(package_of(module)) > ORDER.index(package_of(name))
    ]
    assert not bad, "\n".join(bad)


def test_no_module_imports_itself_through_others() -> None:
    graph = {name: {module for module, _ in modules} for name, modules in own_imports().items()}
    TopologicalSorter(graph).prepare()  # CycleError names the modules


def test_tests_lie_as_the_packages_do() -> None:
    """`tests/unit/A/B` tests `orchestrator/A/B`, or what lies beside `orchestrator`."""
    folders = {path.parent.relative_to(ROOT / "tests" / "unit") for path in (ROOT / "tests" / "unit").rglob("test_*.py")}
    assert [str(name) for name in folders if not any((ROOT / top / name).is_dir() for top in ("orchestrator", ""))] == []
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "unit").glob("test_*.py")}
    assert files - {path.stem for path in (ROOT / "orchestrator").glob("*.py")} == {"architecture"}


MAX_FUNCTION_IMPORTS = 40


def test_imports_in_functions_are_few() -> None:
    """They keep heavy libraries out of the commands that only read; all others stand at the top.

    The modules that declare the commands import what a command needs when it is called, so that `--help` is fast.
    """
    bad = []
    for path in (path for path in SOURCE if path.parent != ROOT / "orchestrator" / "cli"):
        functions = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        lines = {m.lineno for f in functions for m in ast.walk(f) if isinstance(m, ast.Import | ast.ImportFrom)}
        bad += [f"{name_of(path)}:{line}" for line in sorted(lines)]
    assert len(bad) <= MAX_FUNCTION_IMPORTS, "\n".join(bad)


def test_size() -> None:
    """One concept a module."""
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE + SCRIPTS}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_nothing_runs_foreign_code() -> None:
    bad = [f"{path}:{line}" for path in SOURCE + SCRIPTS for module, line in imports(path) if module.partition(".")[0] in UNSAFE_MODULES]
    trees = ((path, ast.walk(tree_of(path))) for path in SOURCE + SCRIPTS)
    for path, node in ((path, node) for path, nodes in trees for node in nodes if isinstance(node, ast.Call)):
        called = ast.unparse(node.func)
        text = f"{name_of(path)}:{node.lineno}: {called}"
        if called in UNSAFE_CALLS:
            bad.append(text)
        for keyword in node.keywords:
            if keyword.arg in ("allow_pickle", "shell") and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False):
                bad.append(f"{text} with {keyword.arg}")
    assert not bad, "\n".join(bad)


def test_no_packages_where_there_are_none() -> None:
    """Tests are imported by path, cluster scripts run by path."""
    assert [name_of(path) for top in ("tests", "cluster") for path in (ROOT / top).rglob("__init__.py")] == []


def tracked() -> list[Path]:
    """Files of the repository, as git has them or will; all of the tree where there is no git."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts and ".git" not in path.parts]


def test_no_registry_and_no_machine_is_named() -> None:
    bad = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        bad += [f"{name_of(path)}: {word}" for word in HOSTS + PLACES if word in text]
    assert not bad, "\n".join(bad)
