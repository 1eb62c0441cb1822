"""The master connection of the system's ssh: a child process that ends with this one, and the folder of its socket.
The ssh of Windows has no such connection; there the folder only holds the files of this run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.file_lock import lock_file
from qverify_agents.printable import last_line
from qverify_agents.process_group import new_group_arguments

HAS_MASTER = sys.platform != "win32"
PREFIX = "qverify-ssh-"
LONGEST = 107 - len("/qverify-ssh-12345678/master.1234567890123456")  # bytes of the folder's parent; ssh binds .RANDOM
END_S = 5.0
YOUNG_S = 60.0  # a folder this new may be one whose maker has not locked it yet


class MasterFolder:
    """A folder of our own (0700), locked while this process lives, which shows others that it is in use."""

    def __init__(self, parent: str):
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        self.socket = f"{self.path}/master"
        self._lock = -1
        if HAS_MASTER:  # Windows opens no folder
            self._lock = os.open(self.path, os.O_RDONLY)
            lock_file(self._lock)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)


def master_folder() -> MasterFolder:
    """Makes a folder in TMPDIR, or in /tmp if that is too long for a socket. Removes folders that killed processes
    left."""
    parent = tempfile.gettempdir()
    if HAS_MASTER and len(os.fsencode(parent)) > LONGEST:
        parent = "/tmp"
    for old in Path(parent).glob(f"{PREFIX}*") if HAS_MASTER else ():
        with contextlib.suppress(OSError):
            _remove_if_left(old)
    return MasterFolder(parent)


def _remove_if_left(old: Path) -> None:
    """Removes a folder that nobody uses. Raises OSError if it cannot be opened."""
    if sys.platform == "win32":
        return
    lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        its = os.fstat(lock)
        if its.st_uid == os.geteuid() and time.time() - its.st_mtime > YOUNG_S and lock_file(lock):
            shutil.rmtree(old)
    finally:
        os.close(lock)


class Master:
    """The process of the master connection. close() also removes its folder."""

    def __init__(self, command: Sequence[str], folder: MasterFolder):
        self._folder, self._said = folder, Path(folder.path, "said")
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                # Ctrl-C must not reach it, for the board's agents end first; on SIGTERM ssh removes its socket
                **new_group_arguments(signal.SIGTERM),
            )

    def connect(self, where: str, deadline: Deadline) -> None:
        """Returns once it accepts sessions: ssh makes the socket after the login. Raises BoardUnreachable after ending
        the process."""
        try:
            while not os.path.exists(self._folder.socket):
                if self._process.poll() is not None:
                    message = last_line(self._said.read_bytes(), f"status {self._process.returncode}")
                    raise BoardUnreachable(f"{where}: ssh says: {message}")
                if deadline.over:
                    raise BoardUnreachable(f"{where}: ssh does not connect in time; give --timeout to wait longer")
                time.sleep(0.02)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        self._end()
        self._folder.close()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
