"""The lock of a board among the processes of this host: a lock on one file per board, which the operating system
releases in whatever way its holder ends. Against other hosts, the board's own lock (PROTOCOL.md) is used."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time

from qverify_agents.address import Address
from qverify_agents.errors import BoardBusy
from qverify_agents.file_lock import LOCK_FLAGS, lock_file, unlock_file
from qverify_agents.this_user import cache_folder

RETRY_S = 0.2


class HostLock:
    """The lock of one board, taken at construction and released by close(). Raises BoardBusy with the holder's name if
    another process still has it after wait_s seconds."""

    def __init__(self, address: Address, owner: str, wait_s: float):
        board_key = f"{address.scheme}\0{address.rest}\0{address.options.get('lock', '')}"
        folder = cache_folder() / "locks"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"{hashlib.sha256(board_key.encode()).hexdigest()[:24]}.lock"
        self._file = os.open(self._path, LOCK_FLAGS, 0o600)
        try:
            self._lock(owner, time.monotonic() + wait_s)
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self, owner: str, give_up_at: float) -> None:
        while not lock_file(self._file):
            if time.monotonic() >= give_up_at:
                os.lseek(self._file, 0, os.SEEK_SET)
                raise BoardBusy(_format_busy(os.read(self._file, 4096)))
            time.sleep(min(RETRY_S, max(0.0, give_up_at - time.monotonic())))
        self._write(json.dumps({"owner": owner, "since": time.time()}).encode())

    def _write(self, content: bytes) -> None:
        """Replaces the file's content by a single write, padded with spaces. The file is not truncated, because ext4
        then flushes it to the disk when it is closed, which takes milliseconds."""
        size = os.fstat(self._file).st_size
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, content.ljust(size))

    def close(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                unlock_file(self._file)
            os.close(self._file)
            self._file = -1


def _format_busy(content: bytes) -> str:
    """Returns the error message for a lock file with this content."""
    try:
        holder = json.loads(content)
        who = f"{str(holder['owner'])[:120]} since {max(0.0, time.time() - float(holder['since'])):.0f} s ago"
    except (ValueError, KeyError, TypeError, RecursionError):
        who = "another process"
    return f"the board is in use by {who}, on this host; --wait SECONDS waits for it"
