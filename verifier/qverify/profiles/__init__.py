"""Vendors' dumps, one profile a file: NAME.py reads what that vendor's tools write. A page defines

WANTED        what a dump of it looks like, as an error says it
CHECKED       what its reader was held against, as every report says it; "" where there is no vendor
recognised(folder) -> bool   whether this is one, without doubt; False where another format could look the same
read(folder, asked) -> VendorDump

The file name is the registry. Nothing here runs a vendor's tool. What was read of public descriptions only is marked in
PROFILES.md."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump


class Page(Protocol):
    WANTED: str
    CHECKED: str

    def recognised(self, folder: UntrustedFolder) -> bool: ...
    def read(self, folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump: ...


def names() -> list[str]:
    return page_names(__name__)


def page(name: str) -> Page:
    """UsageError for a name that no file has."""
    if name not in names():
        raise UsageError(f"no profile {name!r}; there are: {', '.join(names())}")
    return cast(Page, load_page(__name__, name, ("WANTED", "CHECKED", "recognised", "read")))


def recognised(path: str) -> str:
    """The one profile whose dump this is without doubt, or "". UsageError where two claim it."""
    folder = UntrustedFolder(path)
    found = [name for name in names() if page(name).recognised(folder)]
    if len(found) > 1:
        raise UsageError(f"{path}: looks like dumps of {' and '.join(found)}; say which with --profile NAME")
    return found[0] if found else ""
