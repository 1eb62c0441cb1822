"""The files of jobs on a worker's disk: each is fetched once by its digest, checked, and placed at the path at which a job
expects it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qverify.errors import UsageError
from qverify_agents.file_lock import LOCK_FLAGS, lock_file

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.work.job_task import StoredFile

MAX_TREES = 64  # folders kept for later jobs with the same files
MAX_PATH_LENGTH = 400
MAX_NAME_BYTES = 255  # of a file or a folder, as most file systems have it
DEFAULT_LIMIT_BYTES = 20 << 30
FileState = tuple[int, int, int]  # size, time of the last change, inode


@dataclass(slots=True)
class _Tree:
    """A folder with the files of jobs. `users` is the number of jobs that use it now; `states` has the state of each file when
    its bytes were checked; `lock` protects `states` and `laid_out`."""

    folder: Path
    users: int = 0
    laid_out: bool = False
    states: dict[str, FileState] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class FileCache:
    """A cache folder with files by digest, which several processes may share. It has at most limit_bytes; the least recently
    used files are removed first. It shares no file with the artifact store. The files of a job are linked into a folder of this
    process, where they stay until the job is done. Files that changed since they were checked are checked again for the next
    job, and must not change while it runs."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES):
        """Raises UsageError for a folder with a comma or a colon in its path, which -i could not name."""
        if "," in str(folder.absolute()) or ":" in str(folder.absolute()):
            raise UsageError(f"{folder}: a cache folder's path has no comma and no colon; name another")
        self._files, self._limit = folder.absolute() / "files", limit_bytes
        self._files.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._trees_folder, self._trees_lock = _make_trees_folder(folder.absolute() / "trees")
        self._trees: OrderedDict[str, _Tree] = OrderedDict()
        self._lock, self._since_sweep = threading.Lock(), limit_bytes  # the first file sweeps
        self._checked_states: dict[str, FileState] = {}

    @contextlib.contextmanager
    def tree(self, files: Sequence[StoredFile], artifacts: ArtifactStore) -> Iterator[Path]:
        """Yields a folder that contains the files at their paths; the caller must not change it. Raises UsageError for paths
        that check_paths refuses, and ArtifactError if an artifact is missing or damaged, or if a file was changed during the
        `with` block."""
        key = hashlib.sha256(json.dumps(sorted((f.path, f.sha256) for f in files)).encode()).hexdigest()[:32]
        with self._lock:
            tree = self._trees.setdefault(key, _Tree(self._trees_folder / key))
            self._trees.move_to_end(key)
            tree.users += 1
        try:
            with tree.lock:
                if not tree.laid_out:
                    self._lay_out(tree, files, artifacts)
                    tree.laid_out = True
                for file in _changed_files(tree, files):
                    self._place(tree, file, artifacts)
                states = {file.path: tree.states[file.path] for file in files}
            yield tree.folder
            for path, state in states.items():
                if _state_of(tree.folder / path) != state:
                    raise ArtifactError(f"{path}: it changed in this host's cache while the job ran")
        finally:
            with self._lock:
                tree.users -= 1
                self._forget_trees(MAX_TREES)

    def close(self) -> None:
        """Removes the folders of this process."""
        with self._lock:
            self._forget_trees(0)
        shutil.rmtree(self._trees_folder, ignore_errors=True)
        if self._trees_lock >= 0:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._trees_folder}.lock")
            os.close(self._trees_lock)
            self._trees_lock = -1

    def _forget_trees(self, max_trees: int) -> None:
        for key in [key for key, tree in self._trees.items() if not tree.users][: max(0, len(self._trees) - max_trees)]:
            shutil.rmtree(self._trees.pop(key).folder, ignore_errors=True)

    def _lay_out(self, tree: _Tree, files: Sequence[StoredFile], artifacts: ArtifactStore) -> None:
        check_paths([file.path for file in files])
        shutil.rmtree(tree.folder, ignore_errors=True)
        tree.folder.mkdir(parents=True)
        try:
            for file in files:
                self._place(tree, file, artifacts)
        except BaseException:
            shutil.rmtree(tree.folder, ignore_errors=True)
            raise

    def _place(self, tree: _Tree, file: StoredFile, artifacts: ArtifactStore) -> None:
        """Links the file into a tree, and replaces the one that is there."""
        target = tree.folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(3):
            try:
                source, state = self._fetch(file, artifacts)
                if state[0] != file.size:
                    raise ArtifactError(f"{file.path}: {state[0]} bytes are stored, the job says {file.size}")
                target.unlink(missing_ok=True)
                if _link_or_copy(source, target):
                    state = _stat(target)
                    if digest_of(target) != file.sha256:
                        continue
                tree.states[file.path] = state
                return
            except FileNotFoundError:  # another process has just removed it
                continue
        raise ArtifactError(
            f"{file.path}: its bytes were removed while they were read; the cache of this host is too small"
        )

    def _fetch(self, file: StoredFile, artifacts: ArtifactStore) -> tuple[Path, FileState]:
        """Returns the path of the file in this cache, and its state when it was checked. The file is fetched if it is missing or
        damaged."""
        path = self._files / file.sha256[:2] / file.sha256
        path.parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            state = _stat(path)
            is_right = self._checked_states.get(file.sha256) == state or digest_of(path) == file.sha256
            if is_right and _stat(path) == state:
                os.utime(path, ns=(time.time_ns(), state[1]))  # the time of the last change stays
                self._checked_states[file.sha256] = state
                return path, state
        artifacts.copy_to(file.sha256, path)
        path.chmod(0o444)
        self._checked_states[file.sha256] = state = _stat(path)
        self._sweep(file.size)
        return path, state

    def _sweep(self, added_bytes: int) -> None:
        """Removes the least recently used files if the cache exceeds its limit. To save time, this is done only after a
        twentieth of the limit has been added."""
        with self._lock:
            self._since_sweep += added_bytes
            if self._since_sweep < self._limit // 20:
                return
            self._since_sweep = 0
        sweep(self._files, "*/*", self._limit)


def sweep(folder: Path, pattern: str, limit_bytes: int, newer_than: float = float("inf")) -> None:
    """Removes the files and folders that match the pattern, least recently used first (folders: modified), until the rest have
    at most limit_bytes. An entry that was used after newer_than (seconds since 1970) is kept."""
    entries = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            status = path.stat()
            used = status.st_mtime if path.is_dir() else max(status.st_atime, status.st_mtime)
            entries.append((used, _size_of(path), path))
    total = sum(size for _, size, _ in entries)
    for used, size, path in sorted(entries, key=lambda entry: entry[0]):
        if total <= limit_bytes or used > newer_than:
            return
        total -= size
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def check_paths(paths: Sequence[str]) -> None:
    """Raises UsageError unless all paths are relative, have forward slashes, stay inside their folder, are different, and
    none is a folder of another."""
    folders, names = set[str](), set[str]()
    for path in paths:
        parts = path.split("/")
        if (
            any(part in ("", ".", "..") for part in parts)
            or len(path) > MAX_PATH_LENGTH
            or any(c in path for c in "\0\\,:")
        ):
            raise UsageError(
                f"file {path[:100]!r}: wanted a relative path with forward slashes, without .., commas and colons"
            )
        folders |= {"/".join(parts[:n]) for n in range(1, len(parts))}
        if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
            raise UsageError(f"file {path[:100]!r}: a name of more than {MAX_NAME_BYTES} bytes")
        if path in names:
            raise UsageError(f"file {path[:100]!r}: named twice")
        names.add(path)
    if both := folders & names:
        raise UsageError(f"file {min(both)[:100]!r}: also a folder of another file")


def _make_trees_folder(parent: Path) -> tuple[Path, int]:
    """Makes a folder for this process and returns it with the descriptor of its lock. Removes the folders of processes that
    have ended."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for lock_path in parent.glob("*.lock"):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock_path, LOCK_FLAGS & ~os.O_CREAT)
            try:
                if lock_file(descriptor):
                    shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
                    lock_path.unlink()
            finally:
                os.close(descriptor)
    while True:
        folder = parent / secrets.token_hex(8)
        descriptor = os.open(f"{folder}.lock", LOCK_FLAGS, 0o600)
        if lock_file(descriptor) and os.path.exists(f"{folder}.lock"):
            folder.mkdir()
            return folder, descriptor
        os.close(descriptor)  # another process just removed it


def _changed_files(tree: _Tree, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Returns the files of a tree that are missing or have other bytes than the job says. Only those whose state changed are
    read."""
    changed = []
    for file in files:
        state = _state_of(tree.folder / file.path)
        if state is None:
            changed.append(file)
        elif state != tree.states.get(file.path):
            if digest_of(tree.folder / file.path) == file.sha256:
                tree.states[file.path] = state
            else:
                changed.append(file)
    return changed


def _link_or_copy(source: Path, target: Path) -> bool:
    """Links a file, or copies it on a file system without links. Returns whether it was copied."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
        return True
    return False


def _state_of(path: Path) -> FileState | None:
    """Returns the state of a file, or None if there is none."""
    try:
        return _stat(path)
    except FileNotFoundError:
        return None


def _stat(path: Path) -> FileState:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_of(path: Path) -> int:
    if path.is_dir():
        return sum(entry.stat().st_size for entry in path.iterdir())
    return path.stat().st_size
