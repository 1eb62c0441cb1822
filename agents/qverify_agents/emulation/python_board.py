"""Gives an emulated board the Python of scripts/arm_reference: a second archive beside the image's own in its initramfs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qverify_agents.emulation.archive import FILE, LINK, Entry, newc
from qverify_agents.emulation.board_files import merged
from qverify_agents.emulation.image import Image
from qverify_agents.emulation.python_root import PACKAGES, kept_roots
from qverify_agents.errors import BoardUnreachable
from qverify_agents.file_lock import lock_file

TOPS = ("usr", "lib")  # of the root folder; the image has its own etc, proc and sys
LEFT_OUT = ("__pycache__", "tests", "include")
ALIGNMENT = 4  # of an archive after another, by the kernel's rules


def with_python(image: Image, runtime: str, packages: Sequence[str], root: str = "") -> Image:
    """Returns the image with a Python that has one of the runtime's packages (none: any Python), built now if it is not
    there. root: its folder; "": the newest one in the cache. Raises BoardUnreachable without one."""
    folder = _root(image.architecture, runtime, packages, root)
    with open(image.folder / "lock", "ab") as lock:
        lock_file(lock.fileno(), wait=True)
        file = image.folder / f"initrd-python-{_key(image, folder)}"
        if not file.is_file():
            for old in image.folder.glob("initrd-python-*"):
                old.unlink(missing_ok=True)
            _build(image.folder / "initrd.gz", folder, file)
    return replace(image, python=file.name)


def _root(architecture: str, runtime: str, packages: Sequence[str], root: str) -> Path:
    roots = [Path(root).absolute()] if root else kept_roots()[::-1] if architecture == "arm64" else []
    wanted = [f"{PACKAGES}/{name}" for name in packages] or ["usr/bin/python3"]
    for one in roots:
        if any((one / name).exists() for name in wanted):
            return one
    where = root or "the cache"
    more = " --litert" if runtime == "litert" else ""
    raise BoardUnreachable(
        f"-b qemu:{architecture}: no Python{f' with {runtime}' if runtime else ''} for it in {where}. Next: scripts/arm_reference DIR{more} of a clone makes "
        "one for arm64; give that as -b 'qemu:arm64?root=DIR'"
    )


def _key(image: Image, root: Path) -> str:
    """Returns a key of the image and of the packages in the root folder."""
    listed = sorted(p.name for p in (root / PACKAGES).iterdir())
    text = "\n".join([str(root), *listed, (image.folder / "packages.json").read_text()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(initrd: Path, root: Path, file: Path) -> None:
    entries: dict[str, Entry] = {}
    for top in TOPS:
        for folder, folders, names in os.walk(root / top):
            folders[:] = sorted(f for f in folders if f not in LEFT_OUT)
            linked = [f for f in folders if (Path(folder) / f).is_symlink()]
            for path in (Path(folder) / name for name in (*names, *linked)):
                at = path.relative_to(root).as_posix()
                if path.is_symlink():
                    entries[at] = Entry(LINK, 0o777, os.readlink(path).encode())
                elif path.is_file():
                    entries[at] = Entry(FILE, path.stat().st_mode & 0o777, path.read_bytes())
    first = initrd.read_bytes()
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(first + b"\0" * (-len(first) % ALIGNMENT) + newc(merged(entries)))
    part.replace(file)
