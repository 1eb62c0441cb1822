"""The link `exec`: an agent that is a program of this machine. Used by `local` and `qemu-user`."""

from __future__ import annotations

from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.option_values import is_on
from qverify_agents.process_stream import ProcessStream

OPTIONS = frozenset({"store", "memory", "address_space", "packs", "piece", "ahead"})


def open_link(address: Address, deadline: Deadline) -> ProcessStream:
    """Starts the agent and returns the link to it.

    Options of the address: store (directory in which contents are kept between runs; without it the agent keeps them in
    memory), memory (bytes that the board may use to keep every tensor), address_space (limit of the memory of the
    runtime's process, in bytes), and for rehearsals and tests packs, piece and ahead (values of a slower link, see
    interfaces.py)."""
    deadline.left()
    if not address.argv:
        raise BadAddress("-b exec: is only used by other kinds of boards; name one of those, for example local")
    stream = ProcessStream(_agent_command(address), address.environment)
    if "packs" in address.options:
        stream.packs = is_on(address.options, "packs")
    if "piece" in address.options:
        stream.piece_bytes = int(address.options["piece"])
    if "ahead" in address.options:
        stream.ahead = int(address.options["ahead"])
    return stream


def _agent_command(address: Address) -> list[str]:
    store = address.options.get("store")
    command = [*address.argv, "agent"]
    if store:
        try:
            Path(store).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BoardUnreachable(
                f"store={store}: cannot be made: {error.strerror}. Next: name another directory"
            ) from error
        command.append(f"--store={store}")
    if "memory" in address.options:
        command += [f"--memory={address.options['memory']}", f"--store_limit={1 << 32}"]
    if "address_space" in address.options:
        kilobytes = int(address.options["address_space"]) // 1024
        command = ["/bin/sh", "-c", f'ulimit -v {kilobytes} && exec "$@"', "sh", *command]
    return command
