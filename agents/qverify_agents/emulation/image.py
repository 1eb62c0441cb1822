"""Builds the kernel and initramfs of an emulated board from a distribution's kernel, busybox and dropbear, and keys of
its own. The same packages and keys give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qverify_agents import this_user
from qverify_agents.emulation.archive import encode_newc
from qverify_agents.emulation.board_files import (
    link_into_usr,
    make_own_files,
    select_modules,
    unpack_packages,
    write_atomically,
)
from qverify_agents.emulation.packages import Packages
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.file_lock import lock_file

RECIPE = 3  # version of this file and board_files.py; a new number makes every image be built again
ROOT_PACKAGES = ["busybox-static", "dropbear-bin"]
SKIPPED_PACKAGES = {"openssh-client", "gcc-12-base", "gcc-14-base", "debconf", "passwd", "adduser"}


@dataclass(frozen=True, slots=True)
class MachineKind:
    """A kind of emulated board.

    Attributes:
        suite: suite of the Debian distribution.
        kernel: the distribution's package with the kernel.
        machine: qemu's program and arguments.
        console: the kernel's console device.
        apt: the package that contains qemu.
        restores_console: whether qemu's serial device works after a snapshot was restored.
        restores_network: whether qemu's network card does; if not, the machine always boots.
        no_console: the reason why an agent cannot be used over the console, or "".
    """

    suite: str
    kernel: str
    machine: tuple[str, ...]
    console: str
    apt: str
    restores_console: bool = True
    restores_network: bool = True
    no_console: str = ""


KINDS = {
    "arm64": MachineKind(
        "bookworm",
        "linux-image-cloud-arm64",
        ("qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "cortex-a53"),
        "ttyAMA0",
        "qemu-system-arm",
    ),
    "armhf": MachineKind(
        "bookworm",
        "linux-image-armmp-lpae",
        ("qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15"),
        "ttyAMA0",
        "qemu-system-arm",
    ),
    "riscv64": MachineKind(
        "trixie",
        "linux-image-riscv64",
        ("qemu-system-riscv64", "-M", "virt", "-cpu", "rv64"),
        "ttyS0",
        "qemu-system-misc",
        restores_console=False,
    ),
    "s390x": MachineKind(
        "bookworm",
        "linux-image-s390x",
        ("qemu-system-s390x", "-M", "s390-ccw-virtio", "-cpu", "qemu"),
        "ttysclp0",
        "qemu-system-misc",
        restores_network=False,  # with QEMU 7.2, no SSH handshake ends after some restores
        no_console="the kernel's SCLP console driver swallows the byte 0x0F (SysRq), so no frames pass",
    ),
}


@dataclass(frozen=True, slots=True)
class Image:
    """A built image. folder: contains its files. python: file name of an initramfs that also contains Python, or ""."""

    folder: Path
    kind: MachineKind
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


def find_kind(architecture: str) -> MachineKind:
    """Returns the kind of board. Raises BadAddress for an unknown architecture."""
    if architecture not in KINDS:
        raise BadAddress(f"qemu:{architecture}: known boards are {', '.join(f'qemu:{k}' for k in KINDS)}")
    return KINDS[architecture]


def boards_folder() -> Path:
    """Returns the folder of all images and running machines."""
    return this_user.cache_folder() / "boards"


def ensure_image(architecture: str, mirror: str | None = None, say: Callable[[str], None] = lambda _: None) -> Image:
    """Returns the image from the cache, or builds it (about half a minute); only one process builds at a time. mirror:
    a Debian archive, None for that of this machine's apt. say: called with a line on the progress."""
    kind = find_kind(architecture)
    folder = boards_folder() / f"{architecture}-{RECIPE}"
    folder.mkdir(parents=True, exist_ok=True)
    result = Image(folder, kind, architecture)
    with open(folder / "lock", "wb") as lock:
        lock_file(lock.fileno(), wait=True)
        if not (folder / "packages.json").is_file():
            say(f"building the image of qemu:{architecture} from distribution packages, once")
            _build(result, mirror)
    return result


def _build(image: Image, mirror: str | None) -> None:
    packages = Packages(image.folder / "apt", image.architecture, image.kind.suite, mirror)
    packages.update()
    kernels = [name for name in packages.depends(image.kind.kernel) if name.startswith("linux-image-")]
    if not kernels:
        raise BoardUnreachable(f"{image.kind.kernel} has no kernel among its dependencies in {image.kind.suite}")
    debs = packages.fetch([kernels[0], *packages.closure(ROOT_PACKAGES, SKIPPED_PACKAGES)])
    entries, kernel, modules = unpack_packages(debs, kernels[0])
    entries |= select_modules(modules)
    entries |= make_own_files(image.folder)
    data = encode_newc(link_into_usr(entries))
    write_atomically(image.folder / "vmlinuz", kernel)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0, filename="") as out:
        out.write(data)
    write_atomically(image.folder / "initrd.gz", packed.getvalue())
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in debs.values()}
    write_atomically(image.folder / "packages.json", (json.dumps(hashes, indent=1, sort_keys=True) + "\n").encode())
