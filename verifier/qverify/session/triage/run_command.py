"""Runs a command of the user, such as a build command, to its end, or stops it together with the processes that it
started."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence

from qverify_agents.process_group import kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

BUILD_TIMEOUT_S = 600.0  # of a build command (--build-cmd)
MAX_OUTPUT_BYTES = 1 << 16  # of the command's output, from its end, that are read


def fill_in_paths(words: Sequence[str], onnx: str, model: str) -> list[str]:
    """Returns the words of a build command with paths in place of {onnx} and of {model} or {bin}."""
    paths = {"{onnx}": onnx, "{model}": model, "{bin}": model}
    filled = list(words)
    for placeholder, path in paths.items():
        filled = [word.replace(placeholder, path) for word in filled]
    return filled


def run_to_end(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Returns the exit status of the command and the last line that it wrote. Raises OSError if it cannot be started,
    TimeoutError after timeout_s. When this returns or raises (also KeyboardInterrupt), its process group has ended."""
    with tempfile.TemporaryFile() as output:  # not a pipe, which processes left running would keep open
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
        output.seek(max(0, output.seek(0, os.SEEK_END) - MAX_OUTPUT_BYTES))
        lines = output.read().decode(errors="replace").strip().splitlines()
    return status, lines[-1] if lines else ""
