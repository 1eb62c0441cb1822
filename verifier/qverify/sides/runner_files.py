"""The files that a runner left on a board, fetched as an archive: only new regular files reach this host."""

from __future__ import annotations

import os
import re
import tarfile
from typing import IO

from qverify.errors import BoardError
from qverify.printable import printable
from qverify.vendor_files.untrusted_files import DEEPEST, MOST_BYTES, MOST_FILES

CLOCK_S = 2  # granularity of the times of files: FAT keeps even seconds
SLICE = 1 << 20
PLAIN = re.compile(r"[^\x00-\x1f\x7f/]{1,255}")


def unpack(archive: IO[bytes], folder: str, began_s: int | None) -> dict[str, str]:
    """Unpacks the new regular files of the archive into `folder`. began_s: the board's time when the run began. Returns
    the files that were left out, with the reason. Raises BoardError, with the offset, for an archive that is damaged
    or ends too early."""
    refused: dict[str, str] = {}
    size, seen = archive.seek(0, 2), 0
    archive.seek(0)
    if size == 0:
        raise BoardError("the board sent no archive of the files; does it have tar?")
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                seen += 1
                if seen > MOST_FILES:
                    raise BoardError(f"the runner left more than {MOST_FILES} files")
                if member.isdir():
                    continue
                if why := _why_not(member, began_s) or _write(members, member, folder):
                    refused[printable(member.name.removeprefix("./"))[:300]] = why
            end = members.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise BoardError(f"the archive of the runner's files, byte {archive.tell()} of {size}: {error}") from error
    archive.seek(end)
    if archive.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise BoardError(f"the archive of the runner's files ends at byte {size}, before its last file does")
    return refused


def _why_not(member: tarfile.TarInfo, began_s: int | None) -> str:
    """Returns why this file must not be read, "" where it may."""
    parts = member.name.removeprefix("./").split("/")
    if not all(PLAIN.fullmatch(p) and p != ".." for p in parts) or len(parts) > DEEPEST:
        return "not a name of a file in its folder"
    if member.issym() or member.islnk():
        return f"a link to {printable(member.linkname)[:100]!r}, not a new file"
    if not member.isreg() or member.issparse():
        return "not a regular file"
    if member.size > MOST_BYTES:
        return f"{member.size} bytes, at most {MOST_BYTES} are read"
    if began_s is not None and member.mtime < began_s - CLOCK_S:
        return f"{began_s - int(member.mtime)} s older than this run: a stale file"
    return ""


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> str:
    """Writes one member. Returns why that was not possible, "" where it was."""
    path = os.path.join(folder, member.name.removeprefix("./"))
    source = members.extractfile(member)
    if source is None:
        return "not a regular file"
    left = member.size
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            while left and (piece := source.read(min(SLICE, left))):
                file.write(piece)
                left -= len(piece)
    except FileExistsError:
        return "the archive contains it twice"
    except UnicodeEncodeError:
        return "not a name of a file in its folder"
    except OSError as error:
        return f"it cannot be written here: {error.strerror or error}"
    if left:
        raise BoardError(f"the archive of the runner's files ends within {printable(member.name)[:200]!r}")
    return ""
