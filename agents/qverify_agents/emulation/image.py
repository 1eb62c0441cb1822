"""Builds a board's kernel and initramfs from a distribution's kernel, busybox and dropbear, with its own keys;
reproducible."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qverify_agents import this_user
from qverify_agents.emulation.archive import newc
from qverify_agents.emulation.board_files import contents, merged, modules_of, own_files, write_whole
from qverify_agents.emulation.packages import Packages
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.file_lock import lock_file

RECIPE = 3  # version of what is built here and in board_files.py: a new number makes a new image
ROOTS = ["busybox-static", "dropbear-bin"]
SKIP = {"openssh-client", "gcc-12-base", "gcc-14-base", "debconf", "passwd", "adduser"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of board. suite, kernel: of the distribution. machine: qemu's arguments. console: the kernel's. apt: the
    package with qemu. restores_console, restores_network: whether qemu's serial device and network card keep working after a snapshot was
    restored; without the latter it always boots. no_console: why no agent can be used over the console, or ""."""

    suite: str
    kernel: str
    machine: tuple[str, ...]
    console: str
    apt: str
    restores_console: bool = True
    restores_network: bool = True
    no_console: str = ""


KINDS = {
    "arm64": Kind(
        "bookworm",
        "linux-image-cloud-arm64",
        ("qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "cortex-a53"),
        "ttyAMA0",
        "qemu-system-arm",
    ),
    "armhf": Kind(
        "bookworm",
        "linux-image-armmp-lpae",
        ("qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15"),
        "ttyAMA0",
        "qemu-system-arm",
    ),
    "riscv64": Kind(
        "trixie",
        "linux-image-riscv64",
        ("qemu-system-riscv64", "-M", "virt", "-cpu", "rv64"),
        "ttyS0",
        "qemu-system-misc",
        restores_console=False,
    ),
    "s390x": Kind(
        "bookworm",
        "linux-image-s390x",
        ("qemu-system-s390x", "-M", "s390-ccw-virtio", "-cpu", "qemu"),
        "ttysclp0",
        "qemu-system-misc",
        restores_network=False,  # seen with QEMU 7.2: after some restores no SSH handshake ends
        no_console="the kernel's SCLP console driver swallows the byte 0x0F (SysRq), so no frames pass",
    ),
}


@dataclass(frozen=True, slots=True)
class Image:
    """A built image in its folder. python: the file of an initramfs that has Python, too; "" for the plain one."""

    folder: Path
    kind: Kind
    architecture: str
    python: str = ""

    @property
    def initrd(self) -> str:
        return self.python or "initrd.gz"

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host.pub").read_text().split()[:2])

    @property
    def identity(self) -> Path:
        return self.folder / "client"


def kind_of(architecture: str) -> Kind:
    """Returns the kind of board. Raises BadAddress for an unknown architecture."""
    if architecture not in KINDS:
        raise BadAddress(f"qemu:{architecture}: known boards are {', '.join(f'qemu:{k}' for k in KINDS)}")
    return KINDS[architecture]


def cache_folder() -> Path:
    """Returns the folder of images and running machines."""
    return this_user.cache_folder() / "boards"


def image(architecture: str, mirror: str | None = None, say: Callable[[str], None] = lambda _: None) -> Image:
    """Returns the image, from the cache or built now (about half a minute); only one process builds at a time."""
    kind = kind_of(architecture)
    folder = cache_folder() / f"{architecture}-{RECIPE}"
    folder.mkdir(parents=True, exist_ok=True)
    result = Image(folder, kind, architecture)
    with open(folder / "lock", "wb") as lock:
        lock_file(lock.fileno(), wait=True)
        if not (folder / "packages.json").is_file():
            say(f"building the image of qemu:{architecture} from distribution packages, once")
            _build(result, mirror)
    return result


def _build(wanted: Image, mirror: str | None) -> None:
    packages = Packages(wanted.folder / "apt", wanted.architecture, wanted.kind.suite, mirror)
    packages.update()
    kernels = [name for name in packages.depends(wanted.kind.kernel) if name.startswith("linux-image-")]
    if not kernels:
        raise BoardUnreachable(f"{wanted.kind.kernel} has no kernel among its dependencies in {wanted.kind.suite}")
    debs = packages.fetch([kernels[0], *packages.closure(ROOTS, SKIP)])
    entries, kernel, modules = contents(debs, kernels[0])
    entries |= modules_of(modules)
    entries |= own_files(wanted.folder)
    data = newc(merged(entries))
    write_whole(wanted.folder / "vmlinuz", kernel)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0, filename="") as out:
        out.write(data)
    write_whole(wanted.folder / "initrd.gz", packed.getvalue())
    listed = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in debs.values()}
    write_whole(wanted.folder / "packages.json", (json.dumps(listed, indent=1, sort_keys=True) + "\n").encode())
