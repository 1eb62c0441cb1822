"""Adds the Python of scripts/arm_reference to an emulated board, as a second archive in its initramfs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qverify_agents.emulation.archive import FILE, LINK, ArchiveEntry, encode_newc
from qverify_agents.emulation.board_files import link_into_usr
from qverify_agents.emulation.image import Image
from qverify_agents.emulation.python_root import PACKAGES, find_python_roots
from qverify_agents.errors import BoardUnreachable
from qverify_agents.file_lock import lock_file

TOP_FOLDERS = ("usr", "lib")  # folders of the root folder to add; the image has its own etc, proc and sys
LEFT_OUT = ("__pycache__", "tests", "include")
ALIGNMENT = 4  # in bytes, which the kernel requires of a further archive


def add_python(image: Image, runtime: str, packages: Sequence[str], root: str = "") -> Image:
    """Returns the image with a Python, building its initramfs if it does not exist. packages: the Python must have one
    of these; any Python if there are none. root: root folder of the Python, or "" for the newest one in the cache.
    Raises BoardUnreachable if there is no such Python."""
    folder = _find_root(image.architecture, runtime, packages, root)
    with open(image.folder / "lock", "ab") as lock:
        lock_file(lock.fileno(), wait=True)
        file = image.folder / f"initrd-python-{_make_key(image, folder)}"
        if not file.is_file():
            for old in image.folder.glob("initrd-python-*"):
                old.unlink(missing_ok=True)
            _build(image.folder / "initrd.gz", folder, file)
    return replace(image, python=file.name)


def _find_root(architecture: str, runtime: str, packages: Sequence[str], root: str) -> Path:
    roots = [Path(root).absolute()] if root else find_python_roots()[::-1] if architecture == "arm64" else []
    required_paths = [f"{PACKAGES}/{name}" for name in packages] or ["usr/bin/python3"]
    for candidate in roots:
        if any((candidate / name).exists() for name in required_paths):
            return candidate
    where = root or "the cache"
    option = " --litert" if runtime == "litert" else ""
    raise BoardUnreachable(
        f"-b qemu:{architecture}: no Python{f' with {runtime}' if runtime else ''} for it in {where}. Next: scripts/arm_reference DIR{option} of a clone makes "
        "one for arm64; give that as -b 'qemu:arm64?root=DIR'"
    )


def _make_key(image: Image, root: Path) -> str:
    """Returns a key that changes with the image and with the packages in the root folder."""
    package_names = sorted(p.name for p in (root / PACKAGES).iterdir())
    text = "\n".join([str(root), *package_names, (image.folder / "packages.json").read_text()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(initrd: Path, root: Path, file: Path) -> None:
    entries: dict[str, ArchiveEntry] = {}
    for top in TOP_FOLDERS:
        for folder, folders, names in os.walk(root / top):
            folders[:] = sorted(f for f in folders if f not in LEFT_OUT)
            linked = [f for f in folders if (Path(folder) / f).is_symlink()]
            for path in (Path(folder) / name for name in (*names, *linked)):
                entry_name = path.relative_to(root).as_posix()
                if path.is_symlink():
                    entries[entry_name] = ArchiveEntry(LINK, 0o777, os.readlink(path).encode())
                elif path.is_file():
                    entries[entry_name] = ArchiveEntry(FILE, path.stat().st_mode & 0o777, path.read_bytes())
    base = initrd.read_bytes()
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(base + b"\0" * (-len(base) % ALIGNMENT) + encode_newc(link_into_usr(entries)))
    part.replace(file)
