"""Runs the reference in another Python interpreter with a scratch folder, and always ends that process."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from qverify_agents.printable import last_line, one_line
from qverify_agents.process_group import KILL, kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

from qverify.errors import UsageError
from qverify.onnx_model import engine
from qverify.report.spread import SpreadRun
from qverify.sides.reference_variants.interpreter_files import (
    ReferenceVariant,
    ResultRejected,
    largest_result_bytes,
    read_identity,
    read_result,
    write_job,
)
from qverify.tensors.recording import Array

PROGRAM = Path(engine.__file__).with_name("run_in_interpreter.py")
EXTRA_BYTES = 1 << 24  # that the process may write in addition to its results
OUR_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")  # apply to this interpreter only
TakeResult = Callable[[int, Mapping[str, Array]], None]


class OtherInterpreter:
    """Another interpreter. command: shell command that starts a Python with numpy and onnxruntime. deadline_s: limit of
    each run. Raises UsageError if it cannot be started, takes too long, or returns anything but arrays of the expected
    dtypes and shapes; later calls of run() raise the same error at once."""

    def __init__(self, command: str, deadline_s: float):
        self.command, self._deadline_s, self._failed = command, deadline_s, ""
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise self._fail(str(error)) from None
        if not self._words or shutil.which(self._words[0]) is None:
            raise self._fail("no such program" if self._words else "the command is empty")

    def run(
        self,
        variants: Sequence[ReferenceVariant],
        like: Sequence[Mapping[str, Array]],
        take: TakeResult,
        step: Callable[[int], None],
    ) -> SpreadRun:
        """Runs the variants. take: called with the number of each variant and its result, as soon as it exists. like:
        arrays of the expected dtypes and shapes (interpreter_files.read_result). step: called with the number of
        variants that are done. Returns the interpreter's row of the report."""
        if self._failed:
            raise UsageError(self._failed)
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="qverify-reference-", ignore_cleanup_errors=True) as folder:
            try:
                row = self._run_job(Path(folder), variants, like, take, step)
            except ResultRejected as error:
                raise self._fail(str(error).replace(f"{folder}/", "")) from error
        row.seconds, row.runs = round(time.perf_counter() - start, 3), len(variants)
        return row

    def _fail(self, why: str) -> UsageError:
        self._failed = f"--reference-python '{one_line(self.command)[:200]}': {one_line(why)}"
        return UsageError(self._failed)

    def _run_job(
        self,
        folder: Path,
        variants: Sequence[ReferenceVariant],
        like: Sequence[Mapping[str, Array]],
        take: TakeResult,
        step: Callable[[int], None],
    ) -> SpreadRun:
        write_job(folder, variants)
        max_bytes = folder_bytes(folder) + EXTRA_BYTES + sum(largest_result_bytes(arrays) for arrays in like)
        with self._running(folder) as process:
            for number, expected in enumerate(like):
                path = folder / f"run-{number}.npz"
                self._wait(process, path, max_bytes, f"run {number + 1} of {len(like)}")
                take(number, read_result(path, expected))
                path.unlink()
                step(number + 1)
        return read_identity(folder, self.command)

    @contextlib.contextmanager
    def _running(self, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Starts the process. On exit, ends every process of its group."""
        process = None
        try:
            with open(folder / "said", "wb") as output, signals_held():
                process = self._popen(folder, output)
            yield process
        finally:
            if process is not None:
                kill_group(process)
                process.wait()

    def _popen(self, folder: Path, output: BinaryIO) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [*self._words, str(PROGRAM), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if name not in OUR_VARIABLES},
                **new_group_arguments(KILL),
            )
        except OSError as error:
            raise ResultRejected(f"cannot be started: {error.strerror}") from error

    def _wait(self, process: subprocess.Popen[bytes], path: Path, max_bytes: int, what: str) -> None:
        """Waits until the file exists. Raises ResultRejected if the process ends before, takes too long, or writes more
        than max_bytes."""
        deadline, pause = time.monotonic() + self._deadline_s, 0.005
        while True:
            status = process.poll()
            if os.path.lexists(path):
                return
            if status is not None:
                how = f"status {status}" if status >= 0 else f"signal {-status}"
                raise ResultRejected(f"ended with {how} before {what}{last_output(path.parent)}")
            if time.monotonic() > deadline:
                raise ResultRejected(f"no {what} within {self._deadline_s:g} s; --reference-timeout allows more")
            if folder_bytes(path.parent) > max_bytes:
                raise ResultRejected(f"it writes more than the {max_bytes} bytes that its results can have")
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)


def folder_bytes(folder: Path) -> int:
    """Returns the size of the files in the folder, in bytes."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def last_output(folder: Path) -> str:
    """Returns ": " and the last line that the process wrote, or ""."""
    with contextlib.suppress(OSError), open(folder / "said", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
        line = last_line(file.read())
        return f": {line}" if line else ""
    return ""
