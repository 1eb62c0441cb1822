"""Estimates of link rates, for predictions before a board is contacted: assumptions, or the speed of a serial line;
nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qverify_agents.address import Address, parse
from qverify_agents.binaries import MACHINES, host_architecture, runtime_path
from qverify_agents.boards import qemu_user
from qverify_agents.console import upload
from qverify_agents.console.link import ConsoleLink
from qverify_agents.emulation.image import find_kind
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import resolve, resolve_wrapped
from qverify_agents.links.ssh import SshStream
from qverify_agents.process_stream import ProcessStream
from qverify_agents.schemes import BOARDS, LINKS

WRAPPERS, LOCAL_SCHEMES = ("faulty", "finals"), ("local", "exec", "docker", "podman")
CONSOLE_LOGIN_S, SSH_LOGIN_S, BOOT_S = 1.2, 0.4, 1.5  # BENCHMARKS.md: cached runs of the packaged example
PIECE_OVERHEAD_BYTES = 280  # bytes on a console, both ways, for a piece of the agent, besides its base64


@dataclass(frozen=True, slots=True)
class Rate:
    """The estimates for one link.

    Attributes:
        name: name of the link.
        assumed: the assumption that the estimates are based on.
        bytes_per_s: rate in each direction.
        round_trip_s: seconds for a small request and its answer.
        login_s: seconds until the agent is started.
        shape: packs, piece size and requests ahead of the link, as options of `local`.
        pushes_agent: whether the agent must be copied to the board.
        architecture: architecture of the board, or "" if its address does not show it.
    """

    name: str
    assumed: str
    bytes_per_s: float
    round_trip_s: float
    login_s: float
    shape: str
    pushes_agent: bool = True
    architecture: str = ""

    def agent_bytes(self, architecture: str) -> int:
        """Returns the number of bytes on this link that copying the agent takes."""
        if not self.pushes_agent:
            return 0
        size = runtime_path(architecture).stat().st_size
        if not self.name.startswith("serial"):
            return size
        text = 4 * (size + 2) // 3
        return text + text // upload.LINE_CHARACTERS + -(-size // upload.PIECE_BYTES) * PIECE_OVERHEAD_BYTES


def _frame_options(link: type[ProcessStream] | type[SshStream] | type[ConsoleLink]) -> str:
    return f"packs={int(link.packs)}&piece={link.piece_bytes}&ahead={link.ahead}"


PIPE = Rate("pipe", "a process of this machine", 400e6, 0.0002, 0.05, _frame_options(ProcessStream), False)
SSH = Rate("ssh", "100 Mbit/s", 11.5e6, 0.001, SSH_LOGIN_S, _frame_options(SshStream))


def serial_rate(baud: int) -> Rate:
    """Returns the estimates for a serial line with ten bits per byte (8N1)."""
    return Rate(f"serial {baud}", f"{baud} baud", baud / 10, 0.02, CONSOLE_LOGIN_S, _frame_options(ConsoleLink))


COMMON = (
    PIPE,
    replace(SSH, name="ssh, fast", assumed="1 Gbit/s", bytes_per_s=60e6, round_trip_s=0.0005),
    SSH,
    serial_rate(921600),
    serial_rate(115200),
)


def estimate_rate(uri: str) -> Rate:
    """Returns the estimates that the address alone allows. Raises BadAddress for a wrong address."""
    address = parse(resolve(uri)[0])
    while address.scheme in WRAPPERS:
        inner = parse(resolve_wrapped(address.rest))
        address = replace(inner, options={**inner.options, **address.options})
    return replace(_estimate_for_link(uri, address), architecture=_known_architecture(address))


def _known_architecture(address: Address) -> str:
    """Returns the architecture of the agent for the board, or "" if the address does not show it."""
    if "arch" in address.options:
        return MACHINES[address.options["arch"]]
    if address.scheme == "qemu-user":
        return qemu_user.parse_architecture(address)
    if address.scheme == "qemu":
        find_kind(address.rest)
        return MACHINES[address.rest]
    if "platform" in address.options:
        return MACHINES.get(address.options["platform"].split("/")[1], "")
    return host_architecture() if address.scheme in LOCAL_SCHEMES else ""


def _estimate_for_link(uri: str, address: Address) -> Rate:
    if address.scheme not in BOARDS and address.scheme not in LINKS:
        raise BadAddress(f"-b {uri}: no board kind {address.scheme!r}; known: {', '.join([*BOARDS, *LINKS])}")
    if address.scheme == "serial":
        return serial_rate(int(address.options.get("baud", "115200")))
    if address.scheme == "qemu":
        emulated = replace(SSH, name=uri, assumed="QEMU's user network", bytes_per_s=8e6, login_s=SSH_LOGIN_S + BOOT_S)
        return (
            emulated
            if address.options.get("link", "ssh") == "ssh"
            else replace(serial_rate(500_000), name="serial, qemu")
        )
    if address.scheme in ("docker", "podman"):
        kind = "" if {"arch", "platform"} & address.options.keys() else f", {host_architecture()}"
        return replace(PIPE, name=uri, assumed=f"exec into a container{kind}", login_s=1.0, pushes_agent=True)
    if address.scheme in ("local", "qemu-user", "exec"):
        return replace(PIPE, name=uri)
    return replace(SSH, name=uri)
