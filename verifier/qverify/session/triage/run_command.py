"""A command of the user, run to its end or ended with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence

MOST_SAID = 1 << 16


def run_whole(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Exit status and the last line it wrote. OSError where it cannot be started, TimeoutError; its process group is gone
    when this returns or raises, KeyboardInterrupt included."""
    with tempfile.TemporaryFile() as said:  # a pipe would be held open by what it leaves running
        process = subprocess.Popen(
            list(words), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"it did not end within {timeout_s:g} s") from error
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(max(0, said.seek(0, os.SEEK_END) - MOST_SAID))
        lines = said.read().decode(errors="replace").strip().splitlines()
    return status, lines[-1] if lines else ""
