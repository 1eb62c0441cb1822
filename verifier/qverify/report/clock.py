"""The one clock that dates come from."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Literal

from qverify.errors import UsageError

VARIABLE = "QVERIFY_CLOCK"


def utc_now() -> datetime:
    """Returns the time in UTC: that of the environment variable QVERIFY_CLOCK (ISO 8601, of a test), otherwise of this
    host. UsageError where the variable is not a time."""
    given = os.environ.get(VARIABLE)
    if not given:
        return datetime.now(UTC)
    try:
        then = datetime.fromisoformat(given)
    except ValueError as error:
        raise UsageError(f"{VARIABLE}: got {given!r}, wanted a time such as 2026-01-31T12:00:00Z") from error
    return then.replace(tzinfo=UTC) if then.tzinfo is None else then.astimezone(UTC)


def utc_text(precision: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Returns the time in UTC in ISO 8601, such as 2026-01-31T12:00:00+00:00."""
    return utc_now().isoformat(timespec=precision)
