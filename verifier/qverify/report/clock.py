"""The clock for all dates in reports."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Literal

from qverify.errors import UsageError

VARIABLE = "QVERIFY_CLOCK"


def utc_now() -> datetime:
    """Returns the time in UTC: that in the environment variable QVERIFY_CLOCK (ISO 8601, for tests), or else that of
    this host. Raises UsageError if the variable does not contain a time."""
    text = os.environ.get(VARIABLE)
    if not text:
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: got {text!r}, wanted a time such as 2026-01-31T12:00:00Z") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def utc_text(precision: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Returns the time in UTC in ISO 8601, such as 2026-01-31T12:00:00+00:00."""
    return utc_now().isoformat(timespec=precision)
