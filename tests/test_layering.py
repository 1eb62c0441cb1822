"""The arrows of the tree: who may import whom, and which library lives in which file."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    *sorted((ROOT / "verifier" / "qverify").rglob("*.py")),
    *sorted((ROOT / "agents" / "qverify_agents").rglob("*.py")),
]
ABOVE_PROFILES = (  # a reader of dumps knows tensors and errors, and nothing of models, inputs or verdicts
    *(
        "qverify.inputs",
        "qverify.arithmetic",
        "qverify.ops",
        "qverify.onnx_model",
        "qverify.model_bin",
        "qverify.compiler",
    ),
    *("qverify.capture", "qverify.report", "qverify.compare", "qverify.sides", "qverify.triage", "qverify.renderers"),
    *("qverify.session", "qverify.cli", "qverify_agents"),
)
NEVER = {
    "qverify_agents": ("qverify",),
    "qverify.arithmetic": ("qverify.ops", "qverify.sides", "qverify.compiler", "qverify.session", "qverify.model_bin"),
    "qverify.compare": ("qverify.sides", "qverify.session", "qverify.compiler", "qverify_agents"),
    "qverify.renderers": ("qverify.compare", "qverify.sides", "qverify.session"),
    "qverify.report": ("qverify.compare", "qverify.sides", "qverify.session"),
    "qverify.ops": ("qverify.sides", "qverify.compiler", "qverify.session", "qverify.compare"),
    "qverify.sides": ("qverify.session", "qverify.compare", "qverify.cli"),
    "qverify.compiler": ("qverify.session", "qverify.compare", "qverify.cli", "qverify.profiles"),
    "qverify.triage": ("qverify.session", "qverify.cli", "qverify.sides", "qverify_agents"),
    "qverify.session": ("qverify.cli",),
    "qverify.profiles": ABOVE_PROFILES,
    "qverify.tensors": ("qverify.profiles", "qverify.sides", "qverify.session", "qverify.compare", "qverify.cli"),
}
HOMES = {
    "onnxruntime": ("onnx_model/engine.py", "onnx_model/run_elsewhere.py"),
    "click": ("cli/",),
    "rich": ("cli/live_progress.py",),
    "tabulate": ("renderers/",),
    "onnx": ("onnx_model/", "compiler/", "sides/reference.py"),
    "xxhash": ("tensors/digest.py",),
}


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return names


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def test_arrows():
    broken = []
    for path in SOURCES:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])
        for package, banned in NEVER.items():
            if inside(module, package):
                broken += [f"{module} imports {n}" for n in imports(path) for b in banned if inside(n, b)]
    assert len(SOURCES) > 80 and broken == []


def test_one_library_one_home():
    broken = []
    for path in SOURCES:
        for name in imports(path):
            homes = HOMES.get(name.split(".")[0])
            if homes and not any(h in path.as_posix() for h in homes):
                broken.append(f"{path.name} imports {name}")
    assert broken == []


def test_every_tracked_name_is_one_that_somebody_typed():
    """A shell that was sent something else than commands leaves files of other names."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    names = done.stdout.decode(errors="replace").split("\0")
    assert [n for n in names if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9._/-]*|", n)] == []
