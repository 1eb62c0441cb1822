"""Runs a command of the user to its end, or ends it with everything it started."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence

from qverify_agents.process_group import kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

MOST_SAID = 1 << 16


def run_whole(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Returns the exit status and the last line that the command wrote. Raises OSError where it cannot be started,
    TimeoutError after timeout_s; its process group is gone when this returns or raises, KeyboardInterrupt included."""
    with tempfile.TemporaryFile() as output:  # processes that it leaves running would hold a pipe open
        process = None
        try:
            with signals_held():
                process = subprocess.Popen(
                    list(words),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    **new_group_arguments(),
                )
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"it did not end within {timeout_s:g} s") from error
        finally:
            if process is not None:
                kill_group(process)
                process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST_SAID))
        lines = output.read().decode(errors="replace").strip().splitlines()
    return status, lines[-1] if lines else ""
