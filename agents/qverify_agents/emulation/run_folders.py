"""The folder of each running machine, owned by a running process or a state file; machines without an owner are
ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from qverify_agents.emulation.image import cache_folder
from qverify_agents.file_lock import LOCK_FLAGS, lock_file
from qverify_agents.process_group import KILL

OWNER = "owner"  # locked by the process that the folder belongs to; names its host
END_S = 5.0


def root() -> Path:
    """Returns the parent of all folders, without symbolic links, as it appears in qemu's command line."""
    folder = cache_folder() / "run"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder.resolve()


@contextlib.contextmanager
def alone(name: str, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock between all processes that use this name. waits: called if another process holds it."""
    with open(root() / f"{name}.lock", "wb") as lock:
        if not lock_file(lock.fileno()):
            waits()
            lock_file(lock.fileno(), wait=True)
        yield


def make(architecture: str) -> tuple[Path, int]:
    """Makes a folder and returns it with the descriptor that owns it: once that is closed or this process ends, it has
    no owner."""
    with alone("folders"):
        folder = root() / f"{architecture}-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir(mode=0o700)
        owner = os.open(folder / OWNER, LOCK_FLAGS, 0o600)
        os.write(owner, socket.gethostname().encode())
        lock_file(owner, wait=True)
    return folder, owner


def sweep(kept: Callable[[Path], bool]) -> list[str]:
    """Ends the machines and removes the folders that no process of this host owns and that are not kept; returns their
    names."""
    swept = []
    with alone("folders"):
        for folder in root().iterdir():
            if (
                folder.is_dir() and _ownerless(folder) and not kept(folder)
            ):  # in this order: who keeps it owned it before
                _end(folder)
                swept.append(folder.name)
    return swept


def runs_in(process_id: int, folder: Path) -> bool:
    """Returns whether that process is the machine of this folder."""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"qemu-system-" in words[0] and any(os.fsencode(f"{folder}/") in word for word in words)


def _ownerless(folder: Path) -> bool:
    """Returns whether no process of this host owns the folder; False for a folder of another host with a shared file
    system."""
    try:
        owner = os.open(folder / OWNER, LOCK_FLAGS & ~os.O_CREAT)
    except FileNotFoundError:  # made before there were owners: the name holds the process
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
    while any(runs_in(one, folder) for one in machines) and time.monotonic() < end:
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)
