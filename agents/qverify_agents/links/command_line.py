"""shell: a board's shell behind a command of this machine (`podman exec -i NAME /bin/sh -c`); what containers become."""

from __future__ import annotations

from qverify_agents.address import Address
from qverify_agents.capabilities import Shell
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress

OPTIONS: frozenset[str] = frozenset()


def open_shell(address: Address, deadline: Deadline) -> Shell:
    deadline.left()
    if not address.argv:
        raise BadAddress("-b shell: is how other kinds of boards reach theirs; name one of those")
    return CommandShell(address.argv)
