"""qemu:arm64: a board under QEMU with kernel, SSH server and serial console: the one `boards up` started, or one for
this run."""

from __future__ import annotations

from collections.abc import Callable

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.emulation.image import Image, image
from qverify_agents.emulation.machine import RunningMachine, running, start, stop
from qverify_agents.emulation.python_board import with_python
from qverify_agents.errors import BadAddress, NotOnThisHost
from qverify_agents.host_system import why_not_here
from qverify_agents.worker import is_worker

OPTIONS: frozenset[str] = frozenset({"link", "mirror", "root"})


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Returns the board's address for a link, started if necessary, and a function that stops it. ?link=serial: its
    console. A runtime that needs Python gets a machine of its own that has it (?root=DIR names the Python's folder), unless
    --python names one. Raises NotOnThisHost elsewhere than on Linux."""
    check_host(address.rest)
    built, link = image(address.rest, address.options.get("mirror")), address.options.get("link", "ssh")
    if link == "serial" and built.kind.no_console:
        raise BadAddress(f"-b qemu:{address.rest}?link=serial: {built.kind.no_console}. Next: leave link=serial out")
    needs_python = is_worker(address) and link == "ssh" and "python" not in address.options
    if "root" in address.options and not needs_python:
        raise BadAddress(f"root={address.options['root']}: is for --runtime onnxruntime or litert, by ssh")
    if needs_python:
        built = with_python(built, address.options["runtime"], address.options.get("root", ""))
    existing = None if needs_python else running(address.rest)
    cold = link == "serial" and not built.kind.restores_console
    machine = existing or start(built, deadline, ends_with_us=True, cold=cold)

    def down() -> None:
        if existing is None:
            stop(machine)

    if link == "serial":
        return Address("serial", machine.console), down
    return ssh_address(built, machine), down


def check_host(architecture: str) -> None:
    """Raises NotOnThisHost where emulated boards cannot be run: their images are made by apt, their machines found in
    /proc."""
    if why := why_not_here(f"-b qemu:{architecture}", "emulated boards are run on Linux only"):
        raise NotOnThisHost(why)


def ssh_address(built: Image, machine: RunningMachine) -> Address:
    """Returns the machine's address by SSH, with its host key and our key."""
    options = {"host_key": built.host_key, "identity": str(built.identity.absolute()), "ask": "never"}
    return Address("ssh", f"root@127.0.0.1:{machine.port}", options)
