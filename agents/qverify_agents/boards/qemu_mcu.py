"""qemu-mcu:an386 and others: a microcontroller under QEMU that runs a firmware, with the agent on its serial line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.emulation.microcontrollers import MICROCONTROLLERS, RunningMicrocontroller
from qverify_agents.errors import BadAddress, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux

OPTIONS: frozenset[str] = frozenset({"firmware"})


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Starts the machine with ?firmware=FILE.elf, and returns the address of its serial line and a function that stops
    it. Raises BadAddress for an unknown machine or a file that does not exist, NotOnThisHost on systems other than
    Linux."""
    name = address.rest
    if name not in MICROCONTROLLERS:
        raise BadAddress(f"-b qemu-mcu:{name}: known machines are {', '.join(MICROCONTROLLERS)}")
    if why := explain_if_not_linux(f"-b qemu-mcu:{name}", "emulated microcontrollers are run on Linux only"):
        raise NotOnThisHost(why)
    firmware = Path(address.options.get("firmware", ""))
    if not firmware.is_file():
        raise BadAddress(f"-b qemu-mcu:{name}: no firmware {str(firmware)!r}; wanted ?firmware=FILE.elf")
    machine = RunningMicrocontroller(name, firmware, deadline)
    return Address("serial", machine.line, {"mode": "direct"}), machine.stop
