"""qemu-mcu:an386 and others: a microcontroller under QEMU with an agent on its serial line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.emulation.mcu_sources import agent_of_all_ops
from qverify_agents.emulation.microcontrollers import RunningMicrocontroller, find_microcontroller
from qverify_agents.errors import BadAddress, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux

OPTIONS: frozenset[str] = frozenset({"firmware"})


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Starts the machine, and returns the address of its serial line and a function that stops it. It runs
    ?firmware=FILE.elf or, without that, the agent with every op. Raises BadAddress for an unknown machine or a file that
    does not exist, BoardUnreachable if QEMU or the compiler is missing, NotOnThisHost on systems other than Linux."""
    name = address.rest
    find_microcontroller(name, f"-b qemu-mcu:{name}")
    if why := explain_if_not_linux(f"-b qemu-mcu:{name}", "emulated microcontrollers are run on Linux only"):
        raise NotOnThisHost(why)
    given = address.options.get("firmware", "")
    if given and not Path(given).is_file():
        raise BadAddress(f"-b qemu-mcu:{name}: firmware={given}: no such file; wanted a program for {name} (ELF)")
    firmware = Path(given) if given else agent_of_all_ops(name)
    machine = RunningMicrocontroller(name, firmware, deadline)
    return Address("serial", machine.line, {"mode": "direct"}), machine.stop
