"""The error tree of links and boards.

LinkError            one line for the user; exit 3
 +- BoardUnreachable the board or its agent could not be started or found
     +- BadAddress   what -b names cannot be meant: a mistake of the user, exit 2
 +- BoardBusy       somebody else uses the board; names him
 +- LinkTimeout      a deadline passed
 +- LinkClosed       the other end went away
 +- AgentError       the call failed, the agent lives: status and text of the agent
 +- ProtocolError    what came cannot be understood
     +- Contradiction two things that came cannot both be true, or one that cannot be true of what was asked
"""

from __future__ import annotations

from qverify_agents.printable import one_line


class LinkError(Exception):
    """Much of it quotes a board; whatever that sends, the text is one line without control characters."""

    exit_status = 3

    def __init__(self, text: str):
        super().__init__(one_line(text))


class BoardUnreachable(LinkError):
    pass


class BadAddress(BoardUnreachable):
    exit_status = 2


class BoardBusy(LinkError):
    pass


class LinkTimeout(LinkError):
    pass


class LinkClosed(LinkError):
    pass


class AgentError(LinkError):
    def __init__(self, status: int, text: str):
        super().__init__(f"the agent says: {text} (status {status})")
        self.status = status


class ProtocolError(LinkError):
    pass


class Contradiction(ProtocolError):
    """Nothing else that the board said in this run is to be believed, either."""
