"""Vendors' dumps, one profile per file: NAME.py reads what that vendor's tools write. A page defines

WANTED        what its dump looks like, for error messages
CHECKED       what its reader was checked against, for every report; "" where there is no vendor
recognised(folder) -> bool   whether this is certainly its dump; False where another format could look the same
read(folder, asked) -> VendorDump
ARRAYS        optional: True where its dump itself is .npy or .npz files, which are otherwise read without a profile

The file name is the registry. Nothing here runs a vendor's tool. PROFILES.md marks the profiles that follow public
descriptions only."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump


class ProfilePage(Protocol):
    """What a profile's module defines."""

    WANTED: str
    CHECKED: str

    def recognised(self, folder: UntrustedFolder) -> bool: ...
    def read(self, folder: UntrustedFolder, asked: ReadingOptions) -> VendorDump: ...


def names() -> list[str]:
    """Returns the names of the profiles, sorted."""
    return page_names(__name__)


def page(name: str) -> ProfilePage:
    """Returns a profile's module. Raises UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"no profile {name!r}; there are: {', '.join(names())}")
    return cast(ProfilePage, load_page(__name__, name, ("WANTED", "CHECKED", "recognised", "read")))


def recognised(path: str) -> str:
    """Returns the profile whose dump this certainly is, or "". Raises UsageError where two recognise it."""
    folder = UntrustedFolder(path)
    found = [name for name in names() if page(name).recognised(folder)]
    if len(found) > 1:
        raise UsageError(f"{path}: looks like dumps of {' and '.join(found)}; say which with --profile NAME")
    return found[0] if found else ""
