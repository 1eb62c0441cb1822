"""qemu-user:ARCH: the runtime of another architecture under QEMU's user-mode emulation."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.emulation.user_mode import QEMU, emulator
from qverify_agents.errors import BadAddress, BoardUnreachable

OPTIONS: frozenset[str] = frozenset()


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
