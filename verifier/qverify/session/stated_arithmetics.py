"""Opens the arithmetic of --arithmetic: a file, or a shipped one by name."""

from __future__ import annotations

import os
from importlib import resources

from qverify.closest_names import closest_names
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.errors import UsageError
from qverify.report.learned import Arithmetic

SUFFIX = ".toml"


def list_shipped() -> list[str]:
    """Returns the names of the arithmetics that qverify contains, sorted."""
    folder = resources.files("qverify") / "arithmetics"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(f.name.removesuffix(SUFFIX) for f in found if f.name.endswith(SUFFIX))


def open_arithmetic(text: str) -> Arithmetic:
    """Returns the arithmetic of a file, or the shipped one of this name. Raises UsageError if there is neither, and
    BadFileError for a file that is none."""
    if os.path.exists(text):
        return read_arithmetic(text)
    shipped = list_shipped()
    if text in shipped:
        with resources.as_file(resources.files("qverify") / "arithmetics" / f"{text}{SUFFIX}") as path:
            return read_arithmetic(str(path))
    near = closest_names(text, shipped, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"--arithmetic {text}: no such file, and no shipped arithmetic ({', '.join(shipped)}){meant}")
