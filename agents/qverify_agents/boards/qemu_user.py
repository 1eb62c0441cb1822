"""qemu-user:ARCH: the runtime of another architecture under QEMU's user-mode emulation."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.emulation.user_mode import QEMU, emulator
from qverify_agents.errors import BadAddress, BoardUnreachable, NotOnThisHost
from qverify_agents.host_system import why_not_here

OPTIONS: frozenset[str] = frozenset()


def architecture_of(address: Address) -> str:
    """Returns the runtime's name of the architecture. Raises BadAddress."""
    architecture = MACHINES.get(address.rest, "")
    if architecture not in QEMU:
        raise BadAddress(f"-b qemu-user:{address.rest}: known architectures are {', '.join(QEMU)}")
    return architecture


def plainer(address: Address) -> Address:
    """Returns the address that starts the runtime under the emulator. Raises BoardUnreachable without one, NotOnThisHost
    elsewhere than on Linux."""
    architecture = architecture_of(address)
    if why := why_not_here(f"-b qemu-user:{architecture}", "QEMU's user mode exists on Linux only"):
        raise NotOnThisHost(why)
    program = emulator(architecture)
    if program is None:
        raise BoardUnreachable(
            f"-b qemu-user:{architecture}: no qemu-{QEMU[architecture]} on this machine; install qemu-user-static"
        )
    faulty = "fault" in address.options
    argv = (program, str(runtime_path(architecture, faulty)))
    return Address("exec", argv=argv, environment={"QVRT_FAULT": address.options["fault"]} if faulty else {})
