"""kernel_bugs.tar.xz: sets of kernel bugs, one file for each bug, and right.toml. Unpack it to edit, pack it again.

PYTHONPATH=scripts .venv/bin/python -m benchmarks.kernel_bugs_archive unpack|pack FOLDER"""

from __future__ import annotations

import io
import sys
import tarfile
from functools import cache
from pathlib import Path

ARCHIVE = Path(__file__).with_name("kernel_bugs.tar.xz")


@cache
def read_files(path: Path = ARCHIVE) -> dict[str, str]:
    """Returns the text of each .toml file by its name (SET/NAME.toml, right.toml) in an archive or a folder."""
    if path.is_dir():
        return {file.relative_to(path).as_posix(): file.read_text() for file in sorted(path.rglob("*.toml"))}
    texts: dict[str, str] = {}
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None, f"{path.name}: {member.name} is no file"
            texts[member.name] = content.read().decode()
    return texts


def unpack(folder: Path, path: Path = ARCHIVE) -> None:
    """Writes every file of the archive below the folder."""
    for name, text in read_files(path).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def pack(folder: Path, path: Path = ARCHIVE) -> None:
    """Writes the archive of a folder; the same files give the same bytes."""
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:
        for name, text in read_files(folder).items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


if __name__ == "__main__":
    {"unpack": unpack, "pack": pack}[sys.argv[1]](Path(sys.argv[2]))
