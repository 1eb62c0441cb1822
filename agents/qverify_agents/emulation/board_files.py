"""The files of a board's initramfs: from the distribution's packages, and our own, with the keys of ssh."""

from __future__ import annotations

import lzma
import os
import struct
from pathlib import Path

from qverify_agents.emulation.archive import DEVICE, FILE, FOLDER, LINK, Entry, deb_files
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


def write_whole(path: Path, data: bytes) -> None:
    """Writes the file completely or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def contents(debs: dict[str, Path], kernel_name: str) -> tuple[dict[str, Entry], bytes, dict[str, bytes]]:
    """Returns the files for the board, the kernel, and its modules by name. Raises BoardUnreachable."""
    entries: dict[str, Entry] = {}
    kernel, modules = b"", dict[str, bytes]()
    for package, path in debs.items():
        for name, entry in deb_files(path):
            if package == kernel_name and name.startswith("boot/vmlin"):
                kernel = entry.data
            elif package == kernel_name and ".ko" in name:
                modules[Path(name).name.split(".ko")[0]] = entry.data
            elif name.endswith("bin/busybox"):
                entries["bin/busybox"] = Entry(FILE, 0o755, entry.data)
            elif name.endswith(("sbin/dropbear", "/copyright")) or _library(name):
                entries[name] = entry
    if not kernel or "bin/busybox" not in entries:
        raise BoardUnreachable(f"{kernel_name} or busybox-static contains no kernel or no busybox")
    return entries, kernel, modules


def _library(name: str) -> bool:
    return ".so" in name and "/gconv/" not in name and "/audit/" not in name and Path(name).name.startswith(LIBRARIES)


def modules_of(compressed: dict[str, bytes]) -> dict[str, Entry]:
    """Returns the modules of MODULES and those they depend on, and the order in which to load them."""
    entries: dict[str, Entry] = {}

    def add(name: str) -> None:
        spelled = next((n for n in (name, name.replace("_", "-"), name.replace("-", "_")) if n in compressed), None)
        path = f"lib/modules/{spelled}.ko"
        if spelled is None or path in entries:
            return
        data = compressed[spelled]
        data = lzma.decompress(data) if data[:6] == b"\xfd7zXZ\0" else data
        at = data.find(b"\0depends=")
        needed = data[at + 9 : data.index(b"\0", at + 1)].decode().split(",") if at >= 0 else []
        for other in filter(None, needed):
            add(other)
        entries[path] = Entry(FILE, 0o644, data)

    for name in MODULES:
        add(name)
    order = "".join(f"/{path}\n" for path in entries)
    return {**entries, "modules.order": Entry(FILE, 0o644, order.encode())}


def own_files(folder: Path) -> dict[str, Entry]:
    """Returns the files that no package has, and those of the board's keys, which are made in `folder` once."""
    text = {
        "init": (0o755, INIT),
        "etc/passwd": (0o644, "root:*:0:0:root:/root:/bin/sh\n"),
        "etc/group": (0o644, "root:x:0:\n"),
        "etc/shells": (0o644, "/bin/sh\n"),
        "etc/profile": (0o644, "PS1='qvboard# '\n"),
        "etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\n"),
    }
    entries = {name: Entry(FILE, mode, content.encode()) for name, (mode, content) in text.items()}
    entries |= {f"bin/{applet}": Entry(LINK, 0o777, b"busybox") for applet in APPLETS}
    entries |= {
        name: Entry(FOLDER, 0o755) for name in ("dev", "proc", "sys", "tmp", "small", "noexec", "run", "var/log")
    }
    host, client = _key(folder / "host"), _key(folder / "client")
    entries["etc/dropbear/dropbear_ed25519_host_key"] = Entry(FILE, 0o600, host[0])
    entries["root"] = entries["root/.ssh"] = Entry(FOLDER, 0o700)
    entries["root/.ssh/authorized_keys"] = Entry(FILE, 0o600, client[1])
    entries["dev/console"] = Entry(DEVICE, 0o600, device=(5, 1))
    entries["dev/null"] = Entry(DEVICE, 0o666, device=(1, 3))
    return entries


def _key(path: Path) -> tuple[bytes, bytes]:
    """Returns an ed25519 key, made once: in dropbear's format, and its public line."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not path.is_file():
        generated = Ed25519PrivateKey.generate()
        public = generated.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH) + b"\n"
        write_whole(path.with_name(f"{path.name}.pub"), public)
        private = generated.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(private)
    key = form.load_ssh_private_key(path.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    raw = key.private_bytes(form.Encoding.Raw, form.PrivateFormat.Raw, form.NoEncryption())
    raw += key.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)
    kept = struct.pack(">I", 11) + b"ssh-ed25519" + struct.pack(">I", len(raw)) + raw
    return kept, path.with_name(f"{path.name}.pub").read_bytes()


def merged(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Returns the entries with bin, sbin and lib as links into usr, whether the distribution has merged them or not."""
    tops = ("bin", "sbin", "lib", "lib64")
    moved = {f"usr/{name}" if name.split("/")[0] in tops else name: entry for name, entry in entries.items()}
    return {
        **moved,
        **{top: Entry(LINK, 0o777, f"usr/{top}".encode()) for top in tops},
        **{f"usr/{top}": Entry(FOLDER, 0o755) for top in tops},
    }
