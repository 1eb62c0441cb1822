"""Finds the module of each command: in qverify.cli.commands, or in the farm, which needs the libraries of an extra."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from qverify import extras
from qverify.errors import MissingExtraError

if TYPE_CHECKING:
    import click

FARM_MODULES = {name: f"qverify_farm.cli.{name}" for name in ("login", "serve", "suite", "worker")}


def load_command(name: str) -> click.Command:
    """Imports and returns a command. Raises ModuleNotFoundError if it needs a library that is not installed (see
    missing_extra)."""
    command: click.Command = import_module(FARM_MODULES.get(name, f"qverify.cli.commands.{name}")).command
    return command


def missing_extra(name: str, error: ModuleNotFoundError) -> MissingExtraError | None:
    """Returns the error for the user, which names the extra to install, if a command of the farm lacks a library of an extra;
    None for any other error."""
    return extras.missing_extra(f"qverify {name}", error) if name in FARM_MODULES else None


def missing_library(error: ImportError) -> MissingExtraError | None:
    """Returns the error for the user if a package could not load a library of the system; None for any other error."""
    found = re.search(r"(lib[\w.+-]*\.so[.\d]*): cannot open shared object", str(error))
    if found is None:
        return None
    trace, package = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        package = name if name not in ("", "importlib", "qverify") else package
        trace = trace.tb_next
    return MissingExtraError(
        f"{package or 'a package'} cannot be loaded: {found[1]} is not on this machine; install it with the system's packages"
    )
