"""Registries made of folders: every module of a package is a page, found by listing the folder and checked when
loaded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType


def page_names(package: str) -> list[str]:
    """Returns the sorted file stems of a package's pages. package: such as `qverify.ops`; its own __init__ is not a
    page."""
    return list(_stems(tuple(import_module(package).__path__)))


@cache
def _stems(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the sorted stems of the modules in these folders, which are listed once in the life of the process."""
    return tuple(sorted(m.name for m in iter_modules(folders) if not m.ispkg))


def load_page(package: str, name: str, required: Iterable[str]) -> ModuleType:
    """Returns the page's module. ImportError, naming the file, where it does not define every name in `required`."""
    page = import_module(f"{package}.{name}")
    missing = [wanted for wanted in required if getattr(page, wanted, None) is None]
    if missing:
        folder = Path(*package.split(".")[1:])
        raise ImportError(f"{folder / name}.py: a page of this folder must define {', '.join(missing)}")
    return page


def load_pages(package: str, required: Iterable[str]) -> tuple[ModuleType, ...]:
    """Returns every page's module, in the order of the file names."""
    wanted = tuple(required)
    return tuple(load_page(package, name, wanted) for name in page_names(package))
