"""Builds the root file system of a container that stands for a board, from one distribution package: busybox."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from qverify_agents.emulation.archive import FILE, FOLDER, LINK, ArchiveEntry, iterate_deb_files
from qverify_agents.emulation.board_files import APPLETS
from qverify_agents.emulation.packages import Packages
from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line

SUITE = "bookworm"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64", "armv7": "armhf"}


def build_rootfs(architecture: str, mirror: str | None = None) -> bytes:
    """Returns the file system as a tar archive whose bytes depend only on the package. architecture: the runtime's name
    of it. Raises BoardUnreachable."""
    if architecture not in DEBIAN:
        raise BoardUnreachable(f"no container image for {architecture}; wanted one of {', '.join(DEBIAN)}")
    with tempfile.TemporaryDirectory(prefix="qverify-rootfs-") as folder:
        packages = Packages(Path(folder), DEBIAN[architecture], SUITE, mirror)
        packages.update()
        deb = packages.fetch(["busybox-static"])["busybox-static"]
        files = {name: entry for name, entry in iterate_deb_files(deb) if name.endswith(("bin/busybox", "/copyright"))}
    busybox = next(entry.data for name, entry in files.items() if name.endswith("bin/busybox"))
    entries = {"bin/busybox": ArchiveEntry(FILE, 0o755, busybox)}
    entries |= {name: entry for name, entry in files.items() if name.endswith("/copyright")}
    entries |= {f"bin/{applet}": ArchiveEntry(LINK, 0o777, b"busybox") for applet in APPLETS}
    entries |= {name: ArchiveEntry(FOLDER, 0o755) for name in ("dev", "proc", "sys", "etc", "root")} | {
        "tmp": ArchiveEntry(FOLDER, 0o1777)
    }
    entries |= {"etc/passwd": ArchiveEntry(FILE, 0o644, b"root:*:0:0:root:/root:/bin/sh\n")}
    return _encode_tar(entries)


def _encode_tar(entries: dict[str, ArchiveEntry]) -> bytes:
    kinds = {FILE: tarfile.REGTYPE, LINK: tarfile.SYMTYPE, FOLDER: tarfile.DIRTYPE}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(entries):
            entry, info = entries[name], tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kinds[entry.kind], entry.mode, 0
            if entry.kind == LINK:
                info.linkname = entry.data.decode()
            info.size = len(entry.data) if entry.kind == FILE else 0
            tar.addfile(info, io.BytesIO(entry.data) if entry.kind == FILE else None)
    return out.getvalue()


def import_image(engine: str, name: str, data: bytes) -> None:
    """Imports a tar archive as an image of docker or podman. Raises BoardUnreachable."""
    result = subprocess.run([engine, "import", "-", name], input=data, capture_output=True, timeout=300, check=False)
    if result.returncode:
        raise BoardUnreachable(f"{engine} import: {last_line(result.stderr, f'status {result.returncode}')}")
