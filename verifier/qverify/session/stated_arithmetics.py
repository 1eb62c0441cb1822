"""Opens the arithmetic of --arithmetic: a file, or a shipped one by name."""

from __future__ import annotations

import os
from importlib import resources
from typing import TYPE_CHECKING

from qverify_agents.inventory import find_arithmetic

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError

if TYPE_CHECKING:
    from qverify.arithmetic.forms import FormsOfOps
    from qverify.report.learned import Arithmetic

SUFFIX = ".toml"
VERSION_TAGS = ("soc", "firmware", "driver", "toolchain", "runtime", "version")  # of a board: what its arithmetic is of


def list_shipped() -> list[str]:
    """Returns the names of the arithmetics that qverify contains, sorted."""
    folder = resources.files("qverify") / "arithmetics"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(f.name.removesuffix(SUFFIX) for f in found if f.name.endswith(SUFFIX))


def arithmetic_for(board: str | None, given: str) -> Arithmetic | None:
    """Returns the arithmetic that was given, or that of the board in the inventory; None if neither names one. Raises
    UsageError for one that was learned on another version than the board's tags state."""
    listed, tags = find_arithmetic(board) if board is not None else ("", {})
    if not (given or listed):
        return None
    found = open_arithmetic(given or listed)
    for key, learned in found.learned_on.items():
        if tags.get(key, learned) != learned:
            raise UsageError(
                f"arithmetic {found.name}: learned on {key} {learned}, and boards.toml says {tags[key]} of {board}; learn it again "
                f"(qverify identify, which shows what changed), or correct the tag"
            )
    return found


def open_arithmetic(text: str) -> Arithmetic:
    """Returns the arithmetic of a file, or the shipped one of this name. Raises UsageError if there is neither, and
    BadFileError for a file that is none."""
    from qverify.compare.identify.arithmetic_file import read_arithmetic

    if os.path.exists(text):
        return read_arithmetic(text)
    shipped = list_shipped()
    if text in shipped:
        with resources.as_file(resources.files("qverify") / "arithmetics" / f"{text}{SUFFIX}") as path:
            return read_arithmetic(str(path))
    meant = did_you_mean(text, shipped)
    raise UsageError(f"--arithmetic {text}: no such file, and no shipped arithmetic ({', '.join(shipped)}){meant}")


def open_forms(name: str) -> FormsOfOps:
    """Returns the forms by op that the arithmetic of this name or file states. Raises what open_arithmetic() raises."""
    from qverify.compare.identify.arithmetic_file import forms_of_ops

    return forms_of_ops(open_arithmetic(name))
