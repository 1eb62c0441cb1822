"""Functions of the user's: FILE.py:FUNCTION or MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from qverify.errors import QVerifyError
from qverify.printable import printable


def load_function(text: str, option: str, error_class: type[QVerifyError]) -> Callable[..., Any]:
    """Returns the function named by FILE.py:NAME or MODULE:NAME. option: the option that names it, with which an error
    begins. Raises error_class if it cannot be loaded."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise error_class(f"{option} {text}: wanted FILE.py:FUNCTION or MODULE:FUNCTION")
    try:
        with redirect_stdout(sys.stderr):
            module = _load_file(where) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError as error:
        raise error_class(f"{option} {text}: there is no file {where}") from error
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise error_class(f"{option} {text}: {where} cannot be loaded: {printable(message)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise error_class(f"{option} {text}: {where} has no function {name}")
    loaded: Callable[..., Any] = function
    return loaded


def _load_file(path: str) -> Any:
    """Runs a Python file as a module, which is not added to sys.modules, and returns it."""
    spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
