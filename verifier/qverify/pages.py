"""Registries made of folders: every module of a package is an entry (a page), found by listing the folder and checked
when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType


def page_names(package: str) -> list[str]:
    """Returns the sorted module names of a package's pages. package: full name, such as `qverify.ops`. Its __init__ and
    its subpackages are not pages."""
    return list(_stems(tuple(import_module(package).__path__)))


@cache
def _stems(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the sorted names of the modules in these folders. Each folder is listed once per process."""
    return tuple(sorted(m.name for m in iter_modules(folders) if not m.ispkg))


def load_page(package: str, name: str, required: Iterable[str]) -> ModuleType:
    """Returns the page's module. Raises ImportError, with the file's name, if it does not define every name in
    `required`."""
    page = import_module(f"{package}.{name}")
    missing = [attribute for attribute in required if getattr(page, attribute, None) is None]
    if missing:
        folder = Path(*package.split(".")[1:])
        raise ImportError(f"{folder / name}.py: a page of this folder must define {', '.join(missing)}")
    return page


def load_pages(package: str, required: Iterable[str]) -> tuple[ModuleType, ...]:
    """Returns the modules of all pages, in the order of their names. Raises ImportError as load_page does."""
    required_names = tuple(required)
    return tuple(load_page(package, name, required_names) for name in page_names(package))


def page_sources(package: str) -> dict[str, str]:
    """Returns the source of each page of a package by its name, without loading it; "" where only compiled code is there."""
    (folder,) = import_module(package).__path__
    files = {name: Path(folder, f"{name}.py") for name in page_names(package)}
    return {name: file.read_text("utf-8") if file.is_file() else "" for name, file in files.items()}
