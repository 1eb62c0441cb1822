"""Names the files of raw bytes in a dump's folder that nothing describes, so that nothing reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from qverify.plural import count
from qverify.printable import printable
from qverify.sides.dumps.twin_files import RAW
from qverify.vendor_files.untrusted_files import MAX_DEPTH, UntrustedFolder
from qverify.vendor_files.vendor_dump import VendorDump, spelled_loosely

MAX_SHOWN = 3
ADVICE = {  # by profile; "" for a folder of .npy files
    "": "a dump.toml describes them all (qverify compare --help), or --dtype reads them in a folder without .npy files",
    "generic": "add a [[tensor]] entry for each to the manifest, or remove them",
}
OTHER = "profile {} knows nothing of them: describe them in the dump.toml of a folder of their own, or remove them"


def note_unread(path: str, dump: VendorDump | None, missing: Mapping[str, str] | None = None) -> list[str]:
    """Returns a note on the raw files beside those that were read, with the next step; [] if there are none. dump: what was
    read; None for the .npy files of a folder. missing: tensors whose file was seen and not read, beside those of `dump`."""
    if not os.path.isdir(path):
        return []
    root = os.path.realpath(path)
    read = {os.path.realpath(t.where) for t in dump.tensors} if dump is not None else set[str]()
    beside = {root, *map(os.path.dirname, read)} if dump is not None else {root}
    seen = {**(missing or {}), **(dump.missing if dump is not None else {})}
    files = [n for n in UntrustedFolder(path).names(MAX_DEPTH) if n.endswith(RAW)]
    real = {name: os.path.realpath(os.path.join(root, name)) for name in files}
    unread = [n for n in files if real[n] not in read and os.path.dirname(real[n]) in beside and not _is_named(n, seen)]
    if not unread or (dump is not None and read and not read & {*map(os.path.realpath, _below(root, read))}):
        return []
    shown = ", ".join(map(printable, unread[:MAX_SHOWN])) + (" ..." if len(unread) > MAX_SHOWN else "")
    profile = dump.profile if dump is not None else ""
    advice = ADVICE.get(profile) or OTHER.format(profile)
    return [f"{printable(path)}: {count(len(unread), 'raw file', 'was', 'were')} not read ({shown}): {advice}"]


def _below(root: str, paths: Iterable[str]) -> list[str]:
    """Returns the paths that are files below the root."""
    return [p for p in paths if p.startswith(root + os.sep) and os.path.isfile(p)]


def _is_named(file: str, missing: Mapping[str, str]) -> bool:
    """Returns whether a missing tensor, or the reason why it is, names the file."""
    stem = spelled_loosely(os.path.splitext(os.path.basename(file))[0])
    return any(spelled_loosely(name) == stem for name in missing) or any(file in why for why in missing.values())
