"""The link `shell`: a board's shell that a command of this machine reaches, such as `podman exec -i NAME /bin/sh -c`.
Used by containers."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress
from qverify_agents.interfaces import Shell

OPTIONS: frozenset[str] = frozenset()


def open_shell(address: Address, deadline: Deadline) -> Shell:
    """Returns the shell. Raises BadAddress for an address without a command."""
    deadline.left()
    if not address.argv:
        raise BadAddress("-b shell: is only used by other kinds of boards; name one of those, for example docker:IMAGE")
    return CommandShell(address.argv)
