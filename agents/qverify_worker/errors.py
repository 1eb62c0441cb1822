"""What a request fails with: a status of PROTOCOL.md and a line."""

from __future__ import annotations

FORMAT, DAMAGED, UNSUPPORTED, WRONG_INPUT, CANCELLED, PROTOCOL, NOT_FOUND, INTERNAL, BUSY, NO_SPACE = (
    -2,
    -3,
    -4,
    -6,
    -7,
    -8,
    -9,
    -10,
    -11,
    -12,
)


class RequestError(Exception):
    """A request that is answered with ERROR. status: one of those above; the text says what was got and wanted."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status
