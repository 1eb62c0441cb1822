"""The errors of links and boards, all of them a LinkError.

LinkError              one line for the user; exit 3
 +- BoardUnreachable  the board or its agent could not be found or started
 |   +- BadAddress    the address of -b is wrong, a mistake of the user; exit 2
 |   +- NotOnThisHost this host's operating system cannot have this kind of board; exit 2
 +- BoardBusy         somebody else uses the board; the text names the holder
 +- LinkTimeout       a deadline has passed
 +- LinkClosed        the other end has closed the link
 +- AgentError        the agent answered a request with an error (status and text) and still runs
 +- ProtocolError     received data does not follow PROTOCOL.md
     +- Contradiction received data contradicts itself or the request
"""

from __future__ import annotations

from qverify_agents.printable import one_line


class LinkError(Exception):
    """The base class of all errors of boards. Its text may quote what a board sent; it is always one line without
    control characters."""

    exit_status = 3

    def __init__(self, text: str):
        super().__init__(one_line(text))


class BoardUnreachable(LinkError):
    """Raised if a board or its agent cannot be found or started."""


class BadAddress(BoardUnreachable):
    """Raised for a wrong address, which is a mistake of the user."""

    exit_status = 2


class NotOnThisHost(BoardUnreachable):
    """Raised for a kind of board that the operating system of this host cannot have."""

    exit_status = 2


class BoardBusy(LinkError):
    """Raised if somebody else uses the board."""


class LinkTimeout(LinkError):
    """Raised when a deadline has passed."""


class LinkClosed(LinkError):
    """Raised when the other end has closed the link."""


class AgentError(LinkError):
    """Raised for a request that the agent answers with an error. status: the status in that answer (PROTOCOL.md)."""

    def __init__(self, status: int, text: str):
        super().__init__(f"the agent says: {text} (status {status})")
        self.status = status


class ProtocolError(LinkError):
    """Raised for data that does not follow PROTOCOL.md."""


class Contradiction(ProtocolError):
    """Raised when a board contradicts itself or the request; nothing that it sent in this run is then trusted."""
