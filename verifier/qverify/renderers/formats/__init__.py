"""Formats in which a report is written to a file, one a page: NAME.py is the format NAME of `--report NAME=PATH`. A page defines

SUFFIX                  of its files, ".json"
write(report, path)     the whole file or none of it; "-" is stdout. UsageError where it cannot be written
write_triage(triage, path)   the same for what `qverify triage` found; left out where the format has no place for it

The file name is the registry."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.report.document import Report


class Page(Protocol):
    SUFFIX: str

    def write(self, report: Report, path: str) -> None: ...


def names() -> list[str]:
    return page_names(__name__)


def page(name: str) -> Page:
    """UsageError for a name that no file has."""
    if name not in names():
        raise UsageError(f"no report format {name!r}; there are: {', '.join(names())}")
    return cast(Page, load_page(__name__, name, ("SUFFIX", "write")))
