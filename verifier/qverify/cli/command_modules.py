"""Where each command is: in qverify.cli.commands, or in the farm, which needs libraries of an extra."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qverify.errors import MissingExtraError
from qverify.extras import EXTRAS

if TYPE_CHECKING:
    import click

FARM = {name: f"qverify_farm.cli.{name}" for name in ("login", "serve", "suite", "worker")}


def load_command(name: str) -> click.Command:
    """Returns a command. ModuleNotFoundError where it needs a library that is not installed (missing_extra)."""
    command: click.Command = import_module(FARM.get(name, f"qverify.cli.commands.{name}")).command
    return command


def missing_extra(name: str, error: ModuleNotFoundError) -> MissingExtraError | None:
    """Returns the error that names the extra of a farm's command, one line; None for any other module."""
    library = EXTRAS.get((error.name or "").partition(".")[0])
    if name not in (*FARM, "--server") or library is None:
        return None
    return MissingExtraError(
        f"{name if name.startswith('--') else f'qverify {name}'} needs {library[0]}: pip install 'qverify[{library[1]}]'"
    )
