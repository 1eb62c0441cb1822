"""Finds the module of each command: in qverify.cli.commands, or in the farm, which needs the libraries of an extra."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qverify.errors import MissingExtraError
from qverify.extras import EXTRAS

if TYPE_CHECKING:
    import click

FARM_MODULES = {name: f"qverify_farm.cli.{name}" for name in ("login", "serve", "suite", "worker")}


def load_command(name: str) -> click.Command:
    """Imports and returns a command. Raises ModuleNotFoundError if it needs a library that is not installed (see
    missing_extra)."""
    command: click.Command = import_module(FARM_MODULES.get(name, f"qverify.cli.commands.{name}")).command
    return command


def missing_extra(name: str, error: ModuleNotFoundError) -> MissingExtraError | None:
    """Returns the error for the user, which names the extra to install, if a command of the farm (or --server) lacks a
    library of an extra; None for any other error."""
    library = EXTRAS.get((error.name or "").partition(".")[0])
    if name not in (*FARM_MODULES, "--server") or library is None:
        return None
    return MissingExtraError(
        f"{name if name.startswith('--') else f'qverify {name}'} needs {library[0]}: pip install 'qverify[{library[1]}]'"
    )
