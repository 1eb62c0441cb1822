"""Formats a time in a suitable unit."""

from __future__ import annotations


def describe_seconds(seconds: float) -> str:
    """Returns a time in s, ms or us. A time of 0 is shown as less than one microsecond, the resolution of boards."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.1f} us" if seconds > 0 else "< 1 us"
