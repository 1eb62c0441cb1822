"""Describes a time in the unit that suits it."""

from __future__ import annotations


def describe_seconds(seconds: float) -> str:
    """Returns a time in s, ms or us; 0 is below the microsecond that a board counts in."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.1f} us" if seconds > 0 else "< 1 us"
