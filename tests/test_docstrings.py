"""Docstrings are plain sentences or names of things, not the end of a sentence that the function's name begins."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = ("verifier", "agents", "farm", "scripts", "tests")
NO_BEGINNINGS = {"Of", "As", "By"}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of every docstring of a file."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def python_files() -> Iterator[Path]:
    """Yields the modules of all trees, and the commands in scripts/, which have no ending."""
    for tree in TREES:
        yield from sorted((ROOT / tree).rglob("*.py"))
    commands = (path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file() and not path.suffix)
    yield from (path for path in commands if b"python" in path.read_bytes().partition(b"\n")[0])


def test_no_docstring_begins_in_the_middle_of_a_sentence():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in python_files()
        for line, text in docstrings(path)
        if text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0] in NO_BEGINNINGS
    ]
    assert not wrong, "\n".join(wrong)
