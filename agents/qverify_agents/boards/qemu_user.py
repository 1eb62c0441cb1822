"""qemu-user:ARCH: the runtime of another architecture, or onnxruntime or LiteRT for ARM, under QEMU's user-mode
emulation."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.binaries import MACHINES, runtime_path
from qverify_agents.emulation.python_root import find_python_roots, python_command
from qverify_agents.emulation.user_mode import QEMU, find_emulator
from qverify_agents.errors import BadAddress, BoardUnreachable, NotOnThisHost
from qverify_agents.host_system import explain_if_not_linux
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import is_worker, named_python, runtime_arguments, write_worker_file

OPTIONS: frozenset[str] = WORKER_OPTIONS


def parse_architecture(address: Address) -> str:
    """Returns the runtime's name of the address's architecture. Raises BadAddress if it is not known."""
    architecture = MACHINES.get(address.rest, "")
    if architecture not in QEMU:
        raise BadAddress(f"-b qemu-user:{address.rest}: known architectures are {', '.join(QEMU)}")
    return architecture


def plainer(address: Address) -> Address:
    """Returns the address that starts the runtime under the emulator. Raises BoardUnreachable if there is no emulator,
    NotOnThisHost on systems other than Linux."""
    architecture = parse_architecture(address)
    if why := explain_if_not_linux(f"-b qemu-user:{architecture}", "QEMU's user mode exists on Linux only"):
        raise NotOnThisHost(why)
    program = find_emulator(architecture)
    if program is None:
        raise BoardUnreachable(
            f"-b qemu-user:{architecture}: no qemu-{QEMU[architecture]} on this machine; install qemu-user-static"
        )
    if is_worker(address):
        python = named_python(address) or _find_python_command(architecture, program)
        return Address("exec", argv=(*python, "-I", str(write_worker_file()), *runtime_arguments(address)))
    faulty = "fault" in address.options
    argv = (program, str(runtime_path(architecture, faulty)))
    return Address("exec", argv=argv, environment={"QVRT_FAULT": address.options["fault"]} if faulty else {})


def _find_python_command(architecture: str, program: str) -> list[str]:
    """Returns the command of the newest Python for ARM in the cache. Raises BoardUnreachable if there is none."""
    roots = find_python_roots() if architecture == "aarch64" else []
    if not roots:
        raise BoardUnreachable(
            f"-b qemu-user:{architecture}: no Python with the runtime's library for it here. Next: scripts/arm_reference DIR of a "
            "clone makes one for aarch64 and prints its command; give that as --python"
        )
    return python_command(program, roots[-1])
