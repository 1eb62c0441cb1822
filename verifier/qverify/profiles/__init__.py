"""Profiles, one per file: NAME.py reads the files that one vendor's tools write. A page defines

WANTED        description of its dumps, for error messages
CHECKED       how its reader was tested, for every report; "" if it has no vendor
recognised(folder) -> bool   True only if this is certainly its dump, and no other format could look the same
read(folder, options) -> VendorDump
ARRAYS        optional: True if its dumps are .npy or .npz files, which are otherwise read without a profile

The file names are the registry. Nothing here runs a vendor's tool. PROFILES.md marks the profiles that follow public
descriptions only."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump


class ProfilePage(Protocol):
    """The interface of a profile's module."""

    WANTED: str
    CHECKED: str

    def recognised(self, folder: UntrustedFolder) -> bool: ...
    def read(self, folder: UntrustedFolder, options: ReadingOptions) -> VendorDump: ...


def names() -> list[str]:
    """Returns the names of the profiles, sorted."""
    return page_names(__name__)


def page(name: str) -> ProfilePage:
    """Returns a profile's module. Raises UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"no profile {name!r}; there are: {', '.join(names())}")
    return cast(ProfilePage, load_page(__name__, name, ("WANTED", "CHECKED", "recognised", "read")))


def recognised(path: str) -> str:
    """Returns the name of the profile that recognises the dump, or "" if none does. Raises UsageError if several do."""
    folder = UntrustedFolder(path)
    matches = [name for name in names() if page(name).recognised(folder)]
    if len(matches) > 1:
        raise UsageError(f"{path}: looks like dumps of {' and '.join(matches)}; say which with --profile NAME")
    return matches[0] if matches else ""
