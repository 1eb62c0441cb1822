"""The error tree of links and boards.

LinkError            one line for the user; exit 3
 +- BoardUnreachable the board or its agent could not be started or found
     +- BadAddress   the address of -b is wrong: a mistake of the user, exit 2
     +- NotOnThisHost the board cannot be had on this host's system, exit 2
 +- BoardBusy       somebody else uses the board; names the holder
 +- LinkTimeout      a deadline passed
 +- LinkClosed       the other end went away
 +- AgentError       the call failed, the agent still runs: status and text of the agent
 +- ProtocolError    what was received cannot be understood
     +- Contradiction what was received contradicts itself or the request
"""

from __future__ import annotations

from qverify_agents.printable import one_line


class LinkError(Exception):
    """The base of all errors of boards. Its text may quote a board, and is always one line without control
    characters."""

    exit_status = 3

    def __init__(self, text: str):
        super().__init__(one_line(text))


class BoardUnreachable(LinkError):
    """Raised if a board or its agent cannot be found or started."""


class BadAddress(BoardUnreachable):
    """Raised for an address that is wrong, a mistake of the user."""

    exit_status = 2


class NotOnThisHost(BoardUnreachable):
    """Raised for a kind of board that this host's system cannot have."""

    exit_status = 2


class BoardBusy(LinkError):
    """Raised if somebody else uses the board."""


class LinkTimeout(LinkError):
    """Raised when a deadline has passed."""


class LinkClosed(LinkError):
    """Raised when the other end has closed the link."""


class AgentError(LinkError):
    """Raised for a call that the agent answers with an error. status: the agent's."""

    def __init__(self, status: int, text: str):
        super().__init__(f"the agent says: {text} (status {status})")
        self.status = status


class ProtocolError(LinkError):
    """Raised for data that does not follow PROTOCOL.md."""


class Contradiction(ProtocolError):
    """Raised when a board contradicts itself: nothing that it sent in this run is trusted."""
