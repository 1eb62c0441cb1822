"""qemu:arm64 and others: a complete board under QEMU, with a kernel, an SSH server and a serial console: the one that
`boards up` started, or a new one for this run."""

from __future__ import annotations

from collections.abc import Callable

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.emulation.image import Image, ensure_image
from qverify_agents.emulation.machine import RunningMachine, running, start, stop
from qverify_agents.emulation.python_board import add_python
from qverify_agents.errors import BadAddress, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux
from qverify_agents.worker import MODULES, is_worker

OPTIONS: frozenset[str] = frozenset({"link", "mirror", "root"})


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Starts the board, unless it runs, and returns its address for a link and a function that stops it if it was
    started here. With ?link=serial the address is its console. A runtime that needs Python and ?root=DIR (a folder of
    scripts/arm_reference) always get a new machine with that Python. Raises NotOnThisHost on systems other than
    Linux."""
    check_host(address.rest)
    built, link = ensure_image(address.rest, address.options.get("mirror")), address.options.get("link", "ssh")
    if link == "serial" and built.kind.no_console:
        raise BadAddress(f"-b qemu:{address.rest}?link=serial: {built.kind.no_console}. Next: leave link=serial out")
    root, worker = address.options.get("root", ""), is_worker(address)
    needs_python = bool(root) or (worker and "python" not in address.options)
    if root and link != "ssh":
        raise BadAddress(f"-b qemu:{address.rest}: root={root} is for link=ssh")
    if needs_python and link == "ssh":
        runtime = address.options["runtime"] if worker else ""
        built = add_python(built, runtime, MODULES.get(runtime, ()), root)
    running_machine = None if built.python else running(address.rest)
    cold = link == "serial" and not built.kind.restores_console
    machine = running_machine or start(built, deadline, ends_with_us=True, cold=cold)

    def down() -> None:
        if running_machine is None:
            stop(machine)

    if link == "serial":
        return Address("serial", machine.console), down
    return ssh_address(built, machine), down


def check_host(architecture: str) -> None:
    """Raises NotOnThisHost on systems other than Linux: the images of emulated boards are built with apt, and their
    processes are found in /proc."""
    if why := explain_if_not_linux(f"-b qemu:{architecture}", "emulated boards are run on Linux only"):
        raise NotOnThisHost(why)


def ssh_address(built: Image, machine: RunningMachine) -> Address:
    """Returns the machine's SSH address, with its host key and the key that logs in."""
    options = {"host_key": built.host_key, "identity": str(built.identity.absolute()), "ask": "never"}
    return Address("ssh", f"root@127.0.0.1:{machine.port}", options)
