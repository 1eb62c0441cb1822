"""The connection of a runner's board, which is reset once by its inventory entry where it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from qverify_agents.command_board import CommandBoard
from qverify_agents.errors import LinkError, LinkTimeout
from qverify_agents.power import reset_hanging_board

T = TypeVar("T")


class BoardConnection:
    """A connected board. recovered: what was done where it hung, "" where it did not. Raises LinkError where the board
    cannot be reached, also after a reset."""

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
        """Returns what the attempt gives. Where the board hangs, it is reset, once in the life of this connection, and
        the attempt is repeated. Raises LinkError where it hangs again, or cannot be reset."""
        try:
            return attempt()
        except LinkTimeout as error:
            if self.recovered:
                raise LinkError(f"{error}, again after a reset") from error
            up = self.board.agent.hello.get("uptime_s")
            up_s = up + time.monotonic() - self._since if isinstance(up, int) and abs(up) < 1 << 62 else None
            self.board.close()  # its lock is taken again by whoever looks whether it is back
            if not self._recover(error, up_s):
                raise
            self.board = self._connect()
        try:
            return attempt()
        except LinkTimeout as second:
            raise LinkError(f"{second}, again after a reset") from second

    def _recover(self, error: LinkTimeout, up_s: float | None) -> bool:
        """Resets the board. Returns whether that is done. Raises LinkError where it does not come back."""
        try:
            done = reset_hanging_board(self._uri, up_s, self._options)
        except LinkError as lost:
            raise LinkError(f"{error}; {lost}") from error
        self.recovered = f"the board hung ({error}) and was reset once: {done}" if done else ""
        return bool(done)
