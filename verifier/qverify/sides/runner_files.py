"""Unpacks the archive of the files that a runner wrote on a board: only new regular files reach this host."""

from __future__ import annotations

import os
import re
import tarfile
from typing import IO

from qverify.errors import BoardError
from qverify.printable import printable
from qverify.vendor_files.untrusted_files import MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES

FILE_TIME_STEP_S = 2  # resolution of file times: FAT stores even seconds
PIECE_BYTES = 1 << 20
PLAIN_NAME = re.compile(r"[^\x00-\x1f\x7f/]{1,255}")


def unpack(archive: IO[bytes], folder: str, began_s: int | None) -> dict[str, str]:
    """Unpacks the new regular files of the archive into `folder`. began_s: the board's clock when the run began, if
    known. Returns the files that were refused, with the reason. Raises BoardError, with the offset, for an archive that
    is damaged or ends too early."""
    refused: dict[str, str] = {}
    size, count = archive.seek(0, 2), 0
    archive.seek(0)
    if size == 0:
        raise BoardError("the board sent no archive of the files; does it have tar?")
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                count += 1
                if count > MAX_FILES:
                    raise BoardError(f"the runner left more than {MAX_FILES} files")
                if member.isdir():
                    continue
                if why := _refusal(member, began_s) or _write(members, member, folder):
                    refused[printable(member.name.removeprefix("./"))[:300]] = why
            end = members.offset
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise BoardError(f"the archive of the runner's files, byte {archive.tell()} of {size}: {error}") from error
    archive.seek(end)
    if archive.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise BoardError(f"the archive of the runner's files ends at byte {size}, before its last file does")
    return refused


def _refusal(member: tarfile.TarInfo, began_s: int | None) -> str:
    """Returns why this file must not be read, or "" if it may be."""
    parts = member.name.removeprefix("./").split("/")
    if not all(PLAIN_NAME.fullmatch(p) and p != ".." for p in parts) or len(parts) > MAX_DEPTH:
        return "not a name of a file in its folder"
    if member.issym() or member.islnk():
        return f"a link to {printable(member.linkname)[:100]!r}, not a new file"
    if not member.isreg() or member.issparse():
        return "not a regular file"
    if member.size > MAX_FILE_BYTES:
        return f"{member.size} bytes, at most {MAX_FILE_BYTES} are read"
    if began_s is not None and member.mtime < began_s - FILE_TIME_STEP_S:
        return f"{began_s - int(member.mtime)} s older than this run: a stale file"
    return ""


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> str:
    """Writes one member. Returns why that was not possible, or "" if it was written."""
    path = os.path.join(folder, member.name.removeprefix("./"))
    source = members.extractfile(member)
    if source is None:
        return "not a regular file"
    remaining = member.size
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            while remaining and (piece := source.read(min(PIECE_BYTES, remaining))):
                file.write(piece)
                remaining -= len(piece)
    except FileExistsError:
        return "the archive contains it twice"
    except UnicodeEncodeError:
        return "not a name of a file in its folder"
    except OSError as error:
        return f"it cannot be written here: {error.strerror or error}"
    if remaining:
        raise BoardError(f"the archive of the runner's files ends within {printable(member.name)[:200]!r}")
    return ""
