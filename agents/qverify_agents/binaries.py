"""Finds the qvrt binary of an architecture, which the wheel contains."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from qverify_agents.errors import BoardUnreachable

MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv7l": "armv7",
    "armv7": "armv7",
    "arm": "armv7",
    "armhf": "armv7",
    "riscv64": "riscv64",
    "s390x": "s390x",
}


def host_architecture() -> str:
    """Returns the runtime's name of this machine's architecture. Raises BoardUnreachable for any other."""
    machine = platform.machine().lower()
    if machine not in MACHINES:
        raise BoardUnreachable(
            f"this machine is {machine}; the runtime is built for {', '.join(sorted(set(MACHINES.values())))}"
        )
    return MACHINES[machine]


def runtime_path(architecture: str, faulty: bool = False) -> Path:
    """Returns the binary's path (QVERIFY_BIN_DIR names another folder). Raises BoardUnreachable, with how to build it,
    if it is missing."""
    folder = Path(os.environ.get("QVERIFY_BIN_DIR") or Path(__file__).parent / "bin")
    path = folder / f"qvrt{'-faulty' if faulty else ''}-{MACHINES.get(architecture, architecture)}"
    if not path.is_file():
        raise BoardUnreachable(
            f"no runtime for {architecture} ({path.name} is missing); build it with python board_runtime/build.py in a clone"
        )
    return path
