"""The connection to a board with a runner. A board that hangs is reset once, as its inventory entry describes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from qverify_agents.command_board import CommandBoard
from qverify_agents.errors import LinkError, LinkTimeout
from qverify_agents.power import reset_hanging_board

T = TypeVar("T")


class BoardConnection:
    """A connected board. recovered: a note on the reset of a board that hung, or "" without one. Raises LinkError if
    the board cannot be reached, even after a reset."""

    def __init__(self, uri: str, deadline_s: float, options: Mapping[str, str] | None):
        self._uri, self._deadline_s, self._options, self.recovered = uri, deadline_s, options, ""
        try:
            self.board = self._connect()
        except LinkTimeout as error:
            if not self._recover(error, None):
                raise
            self.board = self._connect()

    def _connect(self) -> CommandBoard:
        self._since = time.monotonic()
        return CommandBoard(self._uri, self._deadline_s, self._options)

    def run(self, attempt: Callable[[], T]) -> T:
        """Returns the result of attempt(). If the board hangs, it is reset, once in the life of this connection, and
        the attempt is repeated. Raises LinkError if it hangs again, or cannot be reset."""
        try:
            return attempt()
        except LinkTimeout as error:
            if self.recovered:
                raise LinkError(f"{error}, again after a reset") from error
            uptime_s = self.board.agent.hello.get("uptime_s")
            up_s = (
                uptime_s + time.monotonic() - self._since
                if isinstance(uptime_s, int) and abs(uptime_s) < 1 << 62
                else None
            )
            self.board.close()  # releases the lock: the check whether the board is back takes it
            if not self._recover(error, up_s):
                raise
            self.board = self._connect()
        try:
            return attempt()
        except LinkTimeout as second:
            raise LinkError(f"{second}, again after a reset") from second

    def _recover(self, error: LinkTimeout, up_s: float | None) -> bool:
        """Resets the board. Returns False if it has no way to be reset. Raises LinkError if it does not come back."""
        try:
            description = reset_hanging_board(self._uri, up_s, self._options)
        except LinkError as not_back:
            raise LinkError(f"{error}; {not_back}") from error
        self.recovered = f"the board hung ({error}) and was reset once: {description}" if description else ""
        return bool(description)
