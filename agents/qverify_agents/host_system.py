"""The system of this host, and what only Linux can do."""

from __future__ import annotations

import sys

SYSTEM = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
ELSEWHERE = "a board by SSH (-b HOST) or its serial port, or qverify in a Linux container or WSL"


def why_not_here(board: str, what: str) -> str:
    """Returns "" on Linux; elsewhere the line that says why this host cannot have the board. what: what it needs."""
    return "" if SYSTEM == "Linux" else f"-b {board}: {what}; this host has {SYSTEM}. Next: {ELSEWHERE}"
