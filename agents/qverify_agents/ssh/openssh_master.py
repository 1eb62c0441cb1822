"""The master connection of the system's ssh: a child process that ends with this one, and the folder of its socket. The
ssh of Windows has no master connection; there the folder only contains files of this run."""

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
# Of the parent's path: the path of a socket is limited, and ssh appends .RANDOM to it.
MAX_PARENT_BYTES = 107 - len("/qverify-ssh-12345678/master.1234567890123456")
END_S = 5.0  # seconds for ssh to end before it is killed
MIN_AGE_S = 60.0  # the process that made a younger folder may not have locked it yet


class MasterFolder:
    """A private folder (0700) in `parent`, locked while this process lives, which shows others that it is in use."""

    def __init__(self, parent: str):
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        self.socket = f"{self.path}/master"
        self._lock = -1
        if HAS_MASTER:  # Windows cannot open a folder
            self._lock = os.open(self.path, os.O_RDONLY)
            lock_file(self._lock)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)


def make_master_folder() -> MasterFolder:
    """Makes a folder in TMPDIR, or in /tmp if that path is too long for a socket. Also removes the folders of processes
    that were killed."""
    parent = tempfile.gettempdir()
    if HAS_MASTER and len(os.fsencode(parent)) > MAX_PARENT_BYTES:
        parent = "/tmp"
    for old in Path(parent).glob(f"{PREFIX}*") if HAS_MASTER else ():
        with contextlib.suppress(OSError):
            _remove_if_abandoned(old)
    return MasterFolder(parent)


def _remove_if_abandoned(old: Path) -> None:
    """Removes a folder of this user that no process uses. Raises OSError if it cannot be opened."""
    if sys.platform == "win32":
        return
    lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(lock)
        if status.st_uid == os.geteuid() and time.time() - status.st_mtime > MIN_AGE_S and lock_file(lock):
            shutil.rmtree(old)
    finally:
        os.close(lock)


class Master:
    """The ssh process of the master connection. close() ends it and removes its folder."""

    def __init__(self, command: Sequence[str], folder: MasterFolder):
        self._folder, self._stderr_file = folder, Path(folder.path, "stderr")
        with self._stderr_file.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                # Ctrl-C must not reach ssh, because the board's agents end first; on SIGTERM ssh removes its socket.
                **new_group_arguments(signal.SIGTERM),
            )

    def connect(self, where: str, deadline: Deadline) -> None:
        """Waits until the connection accepts sessions, that is, until ssh has made its socket after the login. If that
        fails, ends the process and raises BoardUnreachable."""
        try:
            while not os.path.exists(self._folder.socket):
                if self._process.poll() is not None:
                    message = last_line(self._stderr_file.read_bytes(), f"status {self._process.returncode}")
                    raise BoardUnreachable(f"{where}: ssh says: {message}")
                if deadline.over:
                    raise BoardUnreachable(f"{where}: ssh does not connect in time; give --timeout to wait longer")
                time.sleep(0.02)
        except BaseException:
            self._end_process()
            raise

    def close(self) -> None:
        self._end_process()
        self._folder.close()

    def _end_process(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
