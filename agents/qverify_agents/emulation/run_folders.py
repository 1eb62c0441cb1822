"""The folders of running machines. Each belongs to a running process or a state file; a machine without an owner is
ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from qverify_agents.emulation.image import boards_folder
from qverify_agents.file_lock import LOCK_FLAGS, lock_file
from qverify_agents.process_group import KILL

OWNER = "owner"  # file with the host's name, locked by the process that owns the folder
END_S = 5.0


def root() -> Path:
    """Returns the parent of all these folders, without symbolic links, as it appears in qemu's command line."""
    folder = boards_folder() / "run"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder.resolve()


@contextlib.contextmanager
def hold_lock(name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A context that has a lock of this name among the processes of this user. on_wait: called if another process has
    it and must be waited for."""
    with open(root() / f"{name}.lock", "wb") as lock:
        if not lock_file(lock.fileno()):
            on_wait()
            lock_file(lock.fileno(), wait=True)
        yield


def make(architecture: str) -> tuple[Path, int]:
    """Makes a folder and returns it with the descriptor that owns it. When the descriptor is closed or this process
    ends, the folder has no owner."""
    with hold_lock("folders"):
        folder = root() / f"{architecture}-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir(mode=0o700)
        owner = os.open(folder / OWNER, LOCK_FLAGS, 0o600)
        os.write(owner, socket.gethostname().encode())
        lock_file(owner, wait=True)
    return folder, owner


def sweep(is_kept: Callable[[Path], bool]) -> list[str]:
    """Removes the folders that no process of this host owns and that `is_kept` does not keep, and ends their machines.
    Returns the names of these folders."""
    swept = []
    with hold_lock("folders"):
        for folder in root().iterdir():
            # In this order: a folder that is kept was owned by the process that keeps it.
            if folder.is_dir() and _has_no_owner(folder) and not is_kept(folder):
                _end(folder)
                swept.append(folder.name)
    return swept


def runs_in(process_id: int, folder: Path) -> bool:
    """Returns whether the process is qemu with the machine of this folder."""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"qemu-system-" in words[0] and any(os.fsencode(f"{folder}/") in word for word in words)


def _has_no_owner(folder: Path) -> bool:
    """Returns whether the folder has no owner. False for a folder of another host on a shared file system."""
    try:
        owner = os.open(folder / OWNER, LOCK_FLAGS & ~os.O_CREAT)
    except FileNotFoundError:  # made by a version without owner files: its name contains the process id
        process_id = folder.name.split("-")[1:2]
        return bool(process_id) and not Path("/proc", *process_id).exists()
    try:
        return lock_file(owner) and os.read(owner, 256) == socket.gethostname().encode()
    finally:
        os.close(owner)


def _end(folder: Path) -> None:
    machines = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and runs_in(int(p.name), folder)]
    for process_id in machines:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, KILL)
    end = time.monotonic() + END_S
    while any(runs_in(process_id, folder) for process_id in machines) and time.monotonic() < end:
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)
