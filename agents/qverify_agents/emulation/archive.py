"""Reads .deb packages, and encodes newc archives (cpio) whose bytes depend only on their entries."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.errors import BoardUnreachable

FILE, LINK, FOLDER, DEVICE = 0o100000, 0o120000, 0o040000, 0o020000


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry of an archive. kind: FILE, LINK, FOLDER or DEVICE (a character device). mode: permission bits. data:
    content of a file, or target of a link. device: major and minor number of a device."""

    kind: int
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def iterate_deb_files(path: Path) -> Iterator[tuple[str, ArchiveEntry]]:
    """Yields (name, entry) for the files and links of a package; the names have no leading "./"."""
    for name, data in _iterate_members(path):
        if not name.startswith("data.tar"):
            continue
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            for member in tar:
                at = member.name.removeprefix("./")
                if member.isfile() and (file := tar.extractfile(member)) is not None:
                    yield at, ArchiveEntry(FILE, member.mode & 0o7777, file.read())
                elif member.issym():
                    yield at, ArchiveEntry(LINK, 0o777, member.linkname.encode())


def _iterate_members(path: Path) -> Iterator[tuple[str, bytes]]:
    data = path.read_bytes()
    if not data.startswith(b"!<arch>\n"):
        raise BoardUnreachable(f"{path.name}: not a Debian package")
    at = 8
    while at + 60 <= len(data):
        name, size = data[at : at + 16].decode().strip().rstrip("/"), int(data[at + 48 : at + 58])
        yield name, data[at + 60 : at + 60 + size]
        at += 60 + size + (size & 1)


def encode_newc(entries: Mapping[str, ArchiveEntry]) -> bytes:
    """Returns a newc archive of the entries: sorted by name, owned by root, dated 1970, with parent folders added."""
    all_entries = dict(entries)
    for name in list(all_entries):
        for parent in Path(name).parents:
            if str(parent) != ".":
                all_entries.setdefault(str(parent), ArchiveEntry(FOLDER, 0o755))
    out = io.BytesIO()
    for number, name in enumerate(sorted(all_entries), 1):
        _write_entry(out, number, name, all_entries[name])
    _write_entry(out, 0, "TRAILER!!!", ArchiveEntry(0, 0))
    out.write(b"\0" * (-out.tell() % 512))
    return out.getvalue()


def _write_entry(out: io.BytesIO, number: int, name: str, entry: ArchiveEntry) -> None:
    encoded = name.encode() + b"\0"
    links = 2 if entry.kind == FOLDER else 1
    fields = [number, entry.kind | entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(encoded), 0]
    out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + encoded)
    out.write(b"\0" * (-out.tell() % 4))
    out.write(entry.data)
    out.write(b"\0" * (-out.tell() % 4))
