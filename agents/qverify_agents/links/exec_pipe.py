"""exec: a program of this machine that is the agent; the link of `local` and `qemu-user`."""

from __future__ import annotations

from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.option_values import is_on
from qverify_agents.process_stream import ProcessStream

OPTIONS = frozenset({"store", "memory", "address_space", "packs", "piece", "ahead"})


def open_link(address: Address, deadline: Deadline) -> ProcessStream:
    """Starts the agent. Options of the address: store (a directory kept between runs; without it, the agent keeps
    contents in memory), memory (bytes the board may use to keep every tensor), address_space (limit of the runtime's
    memory in bytes); packs, piece, ahead: values of a slower link (capabilities.py), for rehearsals and tests."""
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
    words = [*address.argv, "agent"]
    if store:
        try:
            Path(store).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BoardUnreachable(
                f"store={store}: cannot be made: {error.strerror}. Next: name another directory"
            ) from error
        words.append(f"--store={store}")
    if "memory" in address.options:
        words += [f"--memory={address.options['memory']}", f"--store_limit={1 << 32}"]
    if "address_space" in address.options:
        kilobytes = int(address.options["address_space"]) // 1024
        words = ["/bin/sh", "-c", f'ulimit -v {kilobytes} && exec "$@"', "sh", *words]
    return words
