"""Checks a runner's options before anything is opened: its regular expressions, its profile, its command lines."""

from __future__ import annotations

import shutil
import subprocess

from qverify_agents.printable import last_line

from qverify import profiles
from qverify.errors import UsageError
from qverify.printable import printable
from qverify.runners import RunnerChoice, RunnerPlan, option
from qverify.sides.runner_plan import common_options

LINES = ("command", "setup", "teardown")
SHELL_S = 10.0


def check_options(choice: RunnerChoice) -> None:
    """Raises UsageError for options that no run can use, whatever the model is."""
    common_options(RunnerPlan("true"), choice.options)
    if (name := option(choice.options, "profile")) and name not in profiles.names():
        raise UsageError(f"runner option profile={name}: no such profile; there are: {', '.join(profiles.names())}")
    prefix = option(choice.options, "prefix")
    for key in LINES:
        line = option(choice.options, key)
        if line and (why := _refusal(f"{prefix} {line}" if prefix and key == "command" else line)):
            raise UsageError(f"runner option {key}={line}: {why}; wanted a command line of a POSIX shell")


def _refusal(line: str) -> str:
    """Returns why this host's shell cannot read the line, which it does not run; "" where it can, or there is none."""
    shell = shutil.which("sh")
    if shell is None or "\0" in line:
        return "a byte of 0" if "\0" in line else ""
    try:
        read = subprocess.run([shell, "-n"], input=line.encode(), capture_output=True, timeout=SHELL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = printable(last_line(read.stderr.decode(errors="replace")).partition(": ")[2])
    return (said.partition(": ")[2] or said or "a syntax error") if read.returncode else ""
