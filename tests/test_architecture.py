"""Who may import whom: the arrows in docs/architecture.md, read from the source."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mgpp"

# Each room, and the rooms of this package that it may import beside itself.
MAY_IMPORT = {
    "lazy": set(),
    "version": set(),
    "identity": set(),
    "functional": {"lazy"},
    "compiler": set(),
    "kernels": {"compiler", "functional", "identity"},
    "layers": {"functional"},
    "methods": {"functional", "kernels", "layers"},
    "optim": {"functional"},
    "adamw": {"functional", "identity", "kernels"},
    "targets": {"layers"},
    "sampler": {"targets"},
    "renamed": {"sharding", "targets"},
    "disk": set(),
    "records": {"disk"},
    "markup": set(),
    "notebook": {"markup", "methods"},
    "report": {"functional", "markup", "methods", "records"},
    "sharding": {"functional"},
    "checkpoint": {"functional", "sharding"},
    "finite": {"functional", "kernels"},
    "survey": {"functional", "kernels", "methods"},
    "state": {"checkpoint", "methods", "sharding", "survey"},
    "account": {"kernels", "survey"},
    "events": {"account", "functional", "kernels", "methods", "survey"},
    "preparation": {"methods", "sharding", "targets"},
    "attachment": {"kernels", "sharding"},
    "rates": {"identity"},
    "pruner": {
        "account",
        "attachment",
        "events",
        "finite",
        "functional",
        "kernels",
        "methods",
        "notebook",
        "preparation",
        "rates",
        "sharding",
        "state",
        "survey",
        "targets",
    },
    "trackers": {"pruner"},
    "trainer": {"finite", "methods", "preparation", "pruner", "records", "renamed", "sampler", "trackers"},
    "distillation": {"functional"},
    "tasks": {"artifact", "lazy"},
    "artifact": {"disk", "layers", "targets"},
    "run": {
        "adamw",
        "artifact",
        "disk",
        "distillation",
        "finite",
        "layers",
        "methods",
        "notebook",
        "targets",
        "preparation",
        "renamed",
        "trainer",
        "tasks",
        "records",
        "lazy",
        "version",
    },
    "presets": {"methods", "run"},
    "compare": {"disk", "methods", "notebook", "report", "run"},
    "sweep": {"compare", "disk", "methods", "presets", "run", "tasks", "trainer"},
    "runtime": {"compiler", "layers", "targets"},
    "cli": {
        "artifact",
        "methods",
        "targets",
        "pruner",
        "trainer",
        "tasks",
        "records",
        "run",
        "presets",
        "compare",
        "disk",
        "sweep",
        "bench",
        "notebook",
        "report",
        "version",
    },
    "__init__": {
        "adamw",
        "artifact",
        "distillation",
        "layers",
        "lazy",
        "methods",
        "optim",
        "preparation",
        "pruner",
        "runtime",
        "sampler",
        "trainer",
    },
    "bench": {"adamw", "artifact", "disk", "functional", "kernels", "methods", "pruner", "runtime", "targets"},
    "__main__": {"cli"},
}
MAY_SEE_TRANSFORMERS = {
    "artifact", "bench", "distillation", "layers", "renamed", "targets", "trackers", "trainer", "tasks", "run",
    "runtime", "sweep", "cli",
}  # fmt: skip

FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # `from mgpp import records` imports the room mgpp.records.
            found |= {f"mgpp.{alias.name}" for alias in node.names} if node.module == "mgpp" else {node.module}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    modules = imports_of(path)
    rooms = {name.split(".")[1] for name in modules if name.startswith("mgpp.")} - {room, "__version__"}
    assert rooms <= MAY_IMPORT[room]
    if any(name.split(".")[0] == "transformers" for name in modules):
        assert room in MAY_SEE_TRANSFORMERS


def test_the_mathematics_imports_torch_alone():
    allowed = {"torch", "mgpp", "bisect", "collections", "dataclasses", "functools", "math", "re", "typing"}
    for path in (SOURCE / "functional").glob("*.py"):
        assert {name.split(".")[0] for name in imports_of(path)} <= allowed, path
