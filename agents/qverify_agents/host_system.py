"""The operating system of this host, and the message for what only Linux can do."""

from __future__ import annotations

import sys

SYSTEM = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
OTHER_WAYS = "a board by SSH (-b HOST) or its serial port, or qverify in a Linux container or WSL"


def explain_if_not_linux(subject: str, requirement: str, next_step: str = OTHER_WAYS) -> str:
    """Returns "" on Linux, otherwise an error message. subject: the board or command that needs Linux. requirement: a
    sentence on why it does. next_step: what the user can do instead."""
    return "" if SYSTEM == "Linux" else f"{subject}: {requirement}; this host has {SYSTEM}. Next: {next_step}"
