"""The system of this host, and what only Linux can do."""

from __future__ import annotations

import sys

SYSTEM = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
ELSEWHERE = "a board by SSH (-b HOST) or its serial port, or qverify in a Linux container or WSL"


def why_not_here(who: str, what: str, elsewhere: str = ELSEWHERE) -> str:
    """Returns "" on Linux; elsewhere the line that says why this host cannot have it. who: a board or a command. what:
    what it needs. elsewhere: the next step."""
    return "" if SYSTEM == "Linux" else f"{who}: {what}; this host has {SYSTEM}. Next: {elsewhere}"
