"""The files of jobs on a worker's disk: fetched once by digest, checked, and laid out as each job sees them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qverify.errors import UsageError
from qverify_agents.file_lock import LOCK_FLAGS, lock_file

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.work.job_task import StoredFile

MOST_TREES = 64  # that stay laid out for the next job of the same files
MOST_PATH = 400
LIMIT_BYTES = 20 << 30


@dataclass(slots=True)
class _Tree:
    folder: Path
    users: int = 0
    laid_out: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class FileCache:
    """A folder with files by digest, of any number of processes at once, at most limit_bytes of them; the least recently
    used are removed first. What a job uses is linked into a folder of this process and stays until it is done."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES):
        """Raises UsageError for a folder that jobs could not name."""
        if "," in str(folder.absolute()) or ":" in str(folder.absolute()):
            raise UsageError(f"{folder}: a cache folder's path has no comma and no colon; name another")
        self._files, self._limit = folder.absolute() / "files", limit_bytes
        self._files.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._trees_folder, self._own_lock = _own_folder(folder.absolute() / "trees")
        self._trees: OrderedDict[str, _Tree] = OrderedDict()
        self._lock, self._since_sweep = threading.Lock(), limit_bytes  # the first file sweeps
        self._checked: dict[str, tuple[int, int]] = {}

    @contextlib.contextmanager
    def tree(self, files: Sequence[StoredFile], artifacts: Artifacts) -> Iterator[Path]:
        """Yields the folder in which the files have their paths, to be read only. UsageError for paths that do not fit,
        ArtifactError for bytes that are missing or others."""
        key = hashlib.sha256(json.dumps(sorted((f.path, f.sha256) for f in files)).encode()).hexdigest()[:32]
        with self._lock:
            tree = self._trees.setdefault(key, _Tree(self._trees_folder / key))
            self._trees.move_to_end(key)
            tree.users += 1
        try:
            with tree.lock:
                if not tree.laid_out:
                    self._lay_out(tree.folder, files, artifacts)
                    tree.laid_out = True
            yield tree.folder
        finally:
            with self._lock:
                tree.users -= 1
                self._forget_trees(MOST_TREES)

    def close(self) -> None:
        """Removes what is laid out."""
        with self._lock:
            self._forget_trees(0)
        shutil.rmtree(self._trees_folder, ignore_errors=True)
        if self._own_lock >= 0:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._trees_folder}.lock")
            os.close(self._own_lock)
            self._own_lock = -1

    def _forget_trees(self, most: int) -> None:
        for key in [key for key, tree in self._trees.items() if not tree.users][: max(0, len(self._trees) - most)]:
            shutil.rmtree(self._trees.pop(key).folder, ignore_errors=True)

    def _lay_out(self, folder: Path, files: Sequence[StoredFile], artifacts: Artifacts) -> None:
        check_paths([file.path for file in files])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            for file in files:
                target = folder / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._place(file, target, artifacts)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _place(self, file: StoredFile, target: Path, artifacts: Artifacts) -> None:
        """Links the file's bytes, or copies them where the two file systems have no links between them."""
        for _ in range(3):
            source = artifacts.path_of(file.sha256) or self._fetched(file, artifacts)
            try:
                if source.stat().st_size != file.size:
                    raise ArtifactError(
                        f"{file.path}: {source.stat().st_size} bytes are stored, the job says {file.size}"
                    )
                try:
                    os.link(source, target)
                except OSError:
                    shutil.copyfile(source, target)
                return
            except FileNotFoundError:  # removed by another process meanwhile
                continue
        raise ArtifactError(
            f"{file.path}: its bytes were removed while they were read; the cache of this host is too small"
        )

    def _fetched(self, file: StoredFile, artifacts: Artifacts) -> Path:
        """Returns the path of the file's bytes in this cache, fetched where they are missing or damaged."""
        path = self._files / file.sha256[:2] / file.sha256
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            state = (status.st_size, status.st_ino)
            if self._checked.get(file.sha256) == state or _digest_of(path) == file.sha256:
                os.utime(path)
                self._checked[file.sha256] = state
                return path
        path.parent.mkdir(exist_ok=True)
        artifacts.copy_to(file.sha256, path)
        self._sweep(file.size)
        return path

    def _sweep(self, more: int) -> None:
        """Removes the least recently used files, as many as the limit asks for; not after every small file."""
        with self._lock:
            self._since_sweep += more
            if self._since_sweep < self._limit // 20:
                return
            self._since_sweep = 0
        sweep(self._files, "*/*", self._limit)


def sweep(folder: Path, pattern: str, limit_bytes: int, newer_than: float = float("inf")) -> None:
    """Removes the files and folders that match, least recently used (by their times) first, until those that are left
    have at most limit_bytes; what was used after newer_than (seconds since 1970) stays."""
    found = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, _size_of(path), path))
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found, key=lambda one: one[0]):
        if total <= limit_bytes or used > newer_than:
            return
        total -= size
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def check_paths(paths: Sequence[str]) -> None:
    """Raises UsageError unless all are relative, with forward slashes, inside their folder, each once, and none a folder
    of another."""
    folders, names = set[str](), set[str]()
    for path in paths:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or len(path) > MOST_PATH or any(c in path for c in "\0\\,:"):
            raise UsageError(
                f"file {path[:100]!r}: wanted a relative path with forward slashes, without .., commas and colons"
            )
        folders |= {"/".join(parts[:n]) for n in range(1, len(parts))}
        if path in names:
            raise UsageError(f"file {path[:100]!r}: named twice")
        names.add(path)
    if both := folders & names:
        raise UsageError(f"file {min(both)[:100]!r}: also a folder of another file")


def _own_folder(parent: Path) -> tuple[Path, int]:
    """Returns a new folder for this process alone, and the descriptor that locks it; removes those of processes that have
    ended."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for other in parent.glob("*.lock"):
        with contextlib.suppress(OSError):
            descriptor = os.open(other, LOCK_FLAGS & ~os.O_CREAT)
            try:
                if lock_file(descriptor):
                    shutil.rmtree(other.with_suffix(""), ignore_errors=True)
                    other.unlink()
            finally:
                os.close(descriptor)
    while True:
        name = parent / secrets.token_hex(8)
        descriptor = os.open(f"{name}.lock", LOCK_FLAGS, 0o600)
        if lock_file(descriptor) and os.path.exists(f"{name}.lock"):
            name.mkdir()
            return name, descriptor
        os.close(descriptor)  # another process just removed it


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_of(path: Path) -> int:
    if path.is_dir():
        return sum(one.stat().st_size for one in path.iterdir())
    return path.stat().st_size
