"""The files of a board's initramfs: those of the distribution's packages, and our own, including the SSH keys."""

from __future__ import annotations

import lzma
import os
import struct
from pathlib import Path

from qverify_agents.emulation.archive import DEVICE, FILE, FOLDER, LINK, ArchiveEntry, iterate_deb_files
from qverify_agents.errors import BoardUnreachable

MODULES = [
    "virtio",
    "virtio_ccw",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_mmio",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "rng-core",
    "virtio-rng",
    "8250_pci",
]
APPLETS = [
    "sh",
    "ash",
    "mount",
    "umount",
    "mkdir",
    "ls",
    "cat",
    "echo",
    "ifconfig",
    "route",
    "insmod",
    "hostname",
    "usleep",
    "sleep",
    "setsid",
    "cttyhack",
    "stty",
    "grep",
    "ps",
    "kill",
    "reboot",
    "poweroff",
    "dd",
    "df",
    "free",
    "uname",
    "sha256sum",
    "rm",
    "mv",
    "cp",
    "chmod",
    "test",
    "[",
    "true",
    "false",
    "id",
    "env",
    "tail",
    "head",
    "wc",
    "top",
    "dmesg",
    "sync",
    "mktemp",
    "base64",
    "cksum",
    "od",
    "printf",
    "touch",
    "uptime",
    "which",
    "killall",
    "login",
    "getty",
    "seq",
    "tr",
    "cut",
    "date",
]
LIBRARIES = (
    "ld-linux",
    "libc.so",
    "libcrypt",
    "libz",
    "libtom",
    "libgmp",
    "libm.so",
    "libresolv",
    "libnss_files",
    "ld64",
    "libgcc_s",
)
INIT = r"""#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin; export PATH
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts
mount -t tmpfs -o size=96m,mode=1777 tmpfs /tmp
mount -t tmpfs -o size=2m,mode=1777 tmpfs /small
mount -t tmpfs -o size=8m,mode=1777,noexec tmpfs /noexec
hostname qvboard
for m in $(cat /modules.order); do insmod $m 2>/dev/null; done
ifconfig lo 127.0.0.1 up
i=0; while [ ! -e /sys/class/net/eth0 ] && [ $i -lt 100 ]; do i=$((i+1)); usleep 20000; done
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up; route add default gw 10.0.2.2
dropbear -R -s -E -p 22 2>/tmp/dropbear.log
read up _ </proc/uptime; echo "QVBOARD-READY uptime=$up" >/dev/console
exec setsid sh -c 'while :; do setsid cttyhack sh -l; done'
"""


def write_atomically(path: Path, data: bytes) -> None:
    """Writes the file completely or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def unpack_packages(debs: dict[str, Path], kernel_name: str) -> tuple[dict[str, ArchiveEntry], bytes, dict[str, bytes]]:
    """Returns the board's files from these packages, the kernel, and the kernel's modules by name. Raises
    BoardUnreachable if there is no kernel or no busybox."""
    entries: dict[str, ArchiveEntry] = {}
    kernel, modules = b"", dict[str, bytes]()
    for package, path in debs.items():
        for name, entry in iterate_deb_files(path):
            if package == kernel_name and name.startswith("boot/vmlin"):
                kernel = entry.data
            elif package == kernel_name and ".ko" in name:
                modules[Path(name).name.split(".ko")[0]] = entry.data
            elif name.endswith("bin/busybox"):
                entries["bin/busybox"] = ArchiveEntry(FILE, 0o755, entry.data)
            elif name.endswith(("sbin/dropbear", "/copyright")) or _is_library(name):
                entries[name] = entry
    if not kernel or "bin/busybox" not in entries:
        raise BoardUnreachable(f"{kernel_name} or busybox-static contains no kernel or no busybox")
    return entries, kernel, modules


def _is_library(name: str) -> bool:
    return ".so" in name and "/gconv/" not in name and "/audit/" not in name and Path(name).name.startswith(LIBRARIES)


def select_modules(compressed: dict[str, bytes]) -> dict[str, ArchiveEntry]:
    """Returns the modules of MODULES and their dependencies as files, and the file modules.order, which lists them in
    the order in which to load them. compressed: all modules of the kernel."""
    entries: dict[str, ArchiveEntry] = {}

    def add(name: str) -> None:
        spelling = next((n for n in (name, name.replace("_", "-"), name.replace("-", "_")) if n in compressed), None)
        path = f"lib/modules/{spelling}.ko"
        if spelling is None or path in entries:
            return
        data = compressed[spelling]
        data = lzma.decompress(data) if data[:6] == b"\xfd7zXZ\0" else data
        position = data.find(b"\0depends=")
        dependencies = data[position + 9 : data.index(b"\0", position + 1)].decode().split(",") if position >= 0 else []
        for dependency in filter(None, dependencies):
            add(dependency)
        entries[path] = ArchiveEntry(FILE, 0o644, data)

    for name in MODULES:
        add(name)
    order = "".join(f"/{path}\n" for path in entries)
    return {**entries, "modules.order": ArchiveEntry(FILE, 0o644, order.encode())}


def make_own_files(folder: Path) -> dict[str, ArchiveEntry]:
    """Returns the files that are in no package, including the board's keys, which are generated in `folder` once."""
    text = {
        "init": (0o755, INIT),
        "etc/passwd": (0o644, "root:*:0:0:root:/root:/bin/sh\n"),
        "etc/group": (0o644, "root:x:0:\n"),
        "etc/shells": (0o644, "/bin/sh\n"),
        "etc/profile": (0o644, "PS1='qvboard# '\n"),
        "etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\n"),
    }
    entries = {name: ArchiveEntry(FILE, mode, content.encode()) for name, (mode, content) in text.items()}
    entries |= {f"bin/{applet}": ArchiveEntry(LINK, 0o777, b"busybox") for applet in APPLETS}
    entries |= {
        name: ArchiveEntry(FOLDER, 0o755) for name in ("dev", "proc", "sys", "tmp", "small", "noexec", "run", "var/log")
    }
    host, client = _make_key(folder / "host"), _make_key(folder / "client")
    entries["etc/dropbear/dropbear_ed25519_host_key"] = ArchiveEntry(FILE, 0o600, host[0])
    entries["root"] = entries["root/.ssh"] = ArchiveEntry(FOLDER, 0o700)
    entries["root/.ssh/authorized_keys"] = ArchiveEntry(FILE, 0o600, client[1])
    entries["dev/console"] = ArchiveEntry(DEVICE, 0o600, device=(5, 1))
    entries["dev/null"] = ArchiveEntry(DEVICE, 0o666, device=(1, 3))
    return entries


def _make_key(path: Path) -> tuple[bytes, bytes]:
    """Returns an ed25519 key in dropbear's format, and its public key as a line. Generates the key if the file does not
    exist."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not path.is_file():
        generated = Ed25519PrivateKey.generate()
        public = generated.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH) + b"\n"
        write_atomically(path.with_name(f"{path.name}.pub"), public)
        private = generated.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(private)
    key = form.load_ssh_private_key(path.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    raw = key.private_bytes(form.Encoding.Raw, form.PrivateFormat.Raw, form.NoEncryption())
    raw += key.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)
    dropbear_key = struct.pack(">I", 11) + b"ssh-ed25519" + struct.pack(">I", len(raw)) + raw
    return dropbear_key, path.with_name(f"{path.name}.pub").read_bytes()


def link_into_usr(entries: dict[str, ArchiveEntry]) -> dict[str, ArchiveEntry]:
    """Returns the entries with bin, sbin, lib and lib64 as links into usr, whether the distribution has merged them or
    not."""
    top_folders = ("bin", "sbin", "lib", "lib64")
    moved = {f"usr/{name}" if name.split("/")[0] in top_folders else name: entry for name, entry in entries.items()}
    return {
        **moved,
        **{top: ArchiveEntry(LINK, 0o777, f"usr/{top}".encode()) for top in top_folders},
        **{f"usr/{top}": ArchiveEntry(FOLDER, 0o755) for top in top_folders},
    }
