"""The error with which a request fails, and the statuses of PROTOCOL.md."""

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
    """Raised for a request that is answered with ERROR. status: one of those above. The text names the received and the
    expected values."""

    def __init__(self, status: int, text: str):
        super().__init__(text)
        self.status = status
