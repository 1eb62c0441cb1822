"""Profiles, one per file: NAME.py reads the files that one vendor's tools write. A page defines

WANTED        description of its dumps, for error messages
CHECKED       how its reader was tested, for every report; "" if it has no vendor
recognised(folder) -> bool   True only if this is certainly its dump, and no other format could look the same
read(folder, options) -> VendorDump
rungs(folder) -> list[Rung]  optional: the sides of one run that lie in the folder, in the order of the ladder
frames(folder) -> list[int]  optional: the numbers of the frames in a folder of several, rising
BOARD         optional: the name of the rung that only a board computes
ARRAYS        optional: True if its dumps are .npy or .npz files, which are otherwise read without a profile

The file names are the registry. Nothing here runs a vendor's tool. PROFILES.md marks the profiles that follow public
descriptions only."""

from __future__ import annotations

from typing import Protocol, cast

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ReadingOptions, Rung, VendorDump
from qverify.vendor_names import known_spelling


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
    name = known_spelling(name, names())
    if name not in names():
        raise UsageError(f"no profile {name!r}; there are: {', '.join(names())}{did_you_mean(name, names())}")
    return cast(ProfilePage, load_page(__name__, name, ("WANTED", "CHECKED", "recognised", "read")))


def recognised(path: str) -> str:
    """Returns the name of the profile that recognises the dump, or "" if none does. Raises UsageError if several do."""
    folder = UntrustedFolder(path)
    matches = [name for name in names() if page(name).recognised(folder)]
    if len(matches) > 1:
        raise UsageError(f"{path}: looks like dumps of {' and '.join(matches)}; say which with --profile NAME")
    return matches[0] if matches else ""


def board_rung(name: str) -> str:
    """Returns the name of the side that only a board computes, "" if a profile's sides do not tell."""
    side: str = getattr(page(name), "BOARD", "")
    return side


def rungs(path: str, profile: str) -> tuple[str, list[Rung]]:
    """Returns the profile and the sides of one run that the folder holds, the float network first and the board last.
    profile: name of the profile, "" for the first that finds sides. Raises UsageError if there are not two."""
    folder, wanted = UntrustedFolder(path), [known_spelling(profile, names())] if profile else names()
    alone = list[str]()
    for name in wanted:
        find = getattr(page(name), "rungs", None)
        if find is not None and len(found := find(folder)) > 1:
            return name, found
        alone += [f"{rung.name} ({name})" for rung in (found if find is not None else [])]
    holders = [name for name in names() if hasattr(page(name), "rungs")]
    has = f"; it has only {', '.join(alone)}" if alone else ""
    raise UsageError(
        f"{path}: no two sides of one run in it{has}; wanted compare A B, or a folder that {', '.join(holders)} recognise"
    )
