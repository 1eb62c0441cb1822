"""The formats of a suite's report. Each name in FORMATS is a module with a function render()."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from qverify_farm.suites.suite_report import SuiteReport

FORMATS = ("json", "junit", "html", "markdown")
OTHER_NAMES = {"md": "markdown", "xml": "junit"}


def renderer(name: str) -> Callable[[SuiteReport], str]:
    """Returns the function that renders a report in this format."""
    module = import_module(f"{__name__}.{OTHER_NAMES.get(name, name)}")
    render: Callable[[SuiteReport], str] = module.render
    return render
