"""Checks a runner's options (regular expressions, profile, command lines) before anything is opened."""

from __future__ import annotations

import shutil
import subprocess

from qverify_agents.printable import last_line

from qverify import profiles
from qverify.engines import RunnerChoice, RunnerPlan, option
from qverify.errors import UsageError
from qverify.printable import printable
from qverify.sides.runner_plan import common_options

COMMAND_LINES = ("command", "setup", "teardown")  # options that are command lines of the board's shell
SHELL_TIMEOUT_S = 10.0


def check_options(choice: RunnerChoice) -> None:
    """Raises UsageError for options that are wrong whatever the model is."""
    common_options(RunnerPlan("true"), choice.options)
    if (name := option(choice.options, "profile")) and name not in profiles.names():
        raise UsageError(f"runner option profile={name}: no such profile; there are: {', '.join(profiles.names())}")
    prefix = option(choice.options, "prefix")
    for key in COMMAND_LINES:
        line = option(choice.options, key)
        if line and (why := _find_syntax_error(f"{prefix} {line}" if prefix and key == "command" else line)):
            raise UsageError(f"runner option {key}={line}: {why}; wanted a command line of a POSIX shell")


def _find_syntax_error(line: str) -> str:
    """Returns why this host's shell cannot parse the line; "" if it can, or if there is no shell. The line is not
    run."""
    shell = shutil.which("sh")
    if shell is None or "\0" in line:
        return "a byte of 0" if "\0" in line else ""
    try:
        parsed = subprocess.run(
            [shell, "-n"], input=line.encode(), capture_output=True, timeout=SHELL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    message = printable(last_line(parsed.stderr.decode(errors="replace")).partition(": ")[2])
    return (message.partition(": ")[2] or message or "a syntax error") if parsed.returncode else ""
