"""Runs a command where aarch64 programs start under QEMU: a user namespace of its own with a binfmt_misc of its own, so that
nothing of the machine changes. Exit status 77 where the kernel or the caller's rights do not allow it. As root:
python foreign.py COMMAND..."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys

NEW_USER, NEW_MOUNTS, NEW_PROCESSES, DIE_WITH_PARENT, NOT_HERE = 0x10000000, 0x20000, 0x20000000, 1, 77
MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
libc = ctypes.CDLL(None, use_errno=True)


def inside(words: list[str]) -> int:
    """First process of the namespaces: its own /proc and binfmt_misc, then the command."""
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
    for kind, folder in (("proc", "/proc"), ("binfmt_misc", "/proc/sys/fs/binfmt_misc")):
        if subprocess.run(["mount", "-t", kind, kind, folder], capture_output=True, check=False).returncode:
            return NOT_HERE
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        return NOT_HERE
    with open("/proc/sys/fs/binfmt_misc/register", "w") as register:
        register.write(f":qverify-aarch64:M::{MAGIC}:{MASK}:{emulator}:POCF")
    return subprocess.run(words, check=False).returncode


def main(words: list[str]) -> int:
    """The parent maps the users, which the namespace itself may not."""
    ready, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = NOT_HERE
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
        if libc.unshare(NEW_USER | NEW_MOUNTS | NEW_PROCESSES) == 0:
            os.write(ready[1], b".")
            os.read(mapped[0], 1)
            first = os.fork()
            if first == 0:
                os._exit(inside(words))
            status = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        os._exit(status if 0 <= status < 256 else 1)
    os.close(ready[1])
    if os.read(ready[0], 1):
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "w") as file:
                file.write("0 0 65536\n")
        os.write(mapped[1], b".")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
