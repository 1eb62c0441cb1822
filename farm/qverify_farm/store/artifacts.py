"""The artifact store: bytes under their SHA-256, in a folder (sha/ab/cd/DIGEST) or at an fsspec URL."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from qverify.errors import UsageError

from qverify_farm.errors import ArtifactError, StoreFullError
from qverify_farm.store.artifact_backends import Backend, Folder, elsewhere

PIECE = 1 << 20  # bytes read or written at a time
KEEP_FREE_BYTES = 64 << 20  # of a local disk: the database beside the store needs room, too
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes in the store. sha256: their digest, 64 hexadecimal digits. size: bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """files and bytes: of everything stored. free_bytes: left for more, None where the store cannot know."""

    files: int
    bytes: int
    free_bytes: int | None


class Writing:
    """Bytes on their way into the store, in a file of its scratch folder: memory stays constant. limit: bytes, at most."""

    def __init__(self, file: BinaryIO, limit: int | None):
        self._file, self._limit = file, limit
        self._hash, self.size = hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> None:
        """Appends bytes. UsageError above the limit, StoreFullError on a full disk."""
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise UsageError(f"more than {self._limit} bytes")
        self._hash.update(data)
        with _full_disk_told():
            self._file.write(data)

    @property
    def stored(self) -> Stored:
        return Stored(self._hash.hexdigest(), self.size)


class Artifacts:
    """The store at a URL. Whatever is put under a digest is never changed, and what is read is checked against it:
    ArtifactError for bytes that are missing or others. StoreFullError where there is no room."""

    def __init__(self, url: str, backend: Backend):
        self.url, self._backend = url, backend
        self._known_good: dict[str, tuple[int, int]] = {}  # size and time of local files whose digest was checked

    @contextlib.contextmanager
    def writing(self, limit: int | None = None, expected: str = "") -> Iterator[Writing]:
        """Yields a Writing; what it was given is in the store after the block, and nothing is after an exception.
        expected: the digest it must have, "" for any; ArtifactError where it has another."""
        with _full_disk_told():
            free = self._backend.free_bytes()
            if free is not None and free < KEEP_FREE_BYTES:
                raise StoreFullError(f"{self.url}: {free >> 20} MB are free, {KEEP_FREE_BYTES >> 20} MB must stay so")
            handle, name = tempfile.mkstemp(dir=self._backend.scratch(), prefix="part-")
        part = Path(name)
        try:
            with _full_disk_told(), os.fdopen(handle, "wb") as file:
                writing = Writing(file, limit)
                yield writing
            stored = writing.stored
            if expected and stored.sha256 != expected:
                raise ArtifactError(f"SHA-256 is {stored.sha256}, wanted {expected}")
            key = key_of(stored.sha256)
            if self._backend.size_of(key) != stored.size:  # a file that a crash cut short is replaced
                with _full_disk_told():
                    self._backend.place(part, key)
        finally:
            part.unlink(missing_ok=True)

    def put_stream(self, pieces: Iterable[bytes], limit: int | None = None, expected: str = "") -> Stored:
        """Stores the pieces, one after the other, and returns their digest and size. As writing()."""
        with self.writing(limit, expected) as writing:
            for piece in pieces:
                writing.write(piece)
        return writing.stored

    def put_bytes(self, data: bytes) -> Stored:
        """Stores these bytes and returns their digest and size."""
        sha256 = hashlib.sha256(data).hexdigest()
        if self._backend.size_of(key_of(sha256)) == len(data):
            return Stored(sha256, len(data))
        return self.put_stream([data])

    def put_file(self, path: str | os.PathLike[str], limit: int | None = None) -> Stored:
        """Stores the bytes of a file as they are while it is read once, and returns their digest and size."""
        with open(path, "rb") as file:
            return self.put_stream(iter(lambda: file.read(PIECE), b""), limit)

    def exists(self, sha256: str) -> bool:
        return self._backend.size_of(key_of(sha256)) is not None

    def size_of(self, sha256: str) -> int | None:
        """Returns the bytes stored under this digest; None where there are none."""
        return self._backend.size_of(key_of(sha256))

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """Yields the bytes in pieces. ArtifactError at the end where they are others than the digest says: who reads
        must not use them before."""
        seen = hashlib.sha256()
        try:
            with self._backend.open(key_of(sha256)) as file:
                while piece := file.read(PIECE):
                    seen.update(piece)
                    yield piece
        except FileNotFoundError:
            raise ArtifactError(f"{self.url}: nothing is stored under {sha256}") from None
        if seen.hexdigest() != sha256:
            raise ArtifactError(f"{self.url}: {sha256}: its bytes were damaged; their SHA-256 is {seen.hexdigest()}")

    def read(self, sha256: str, limit: int = 1 << 30) -> bytes:
        """Returns the bytes, checked. ArtifactError for more than `limit`, before any are read."""
        size = self.size_of(sha256)
        if size is not None and size > limit:
            raise ArtifactError(f"{self.url}: {sha256}: {size} bytes, wanted at most {limit}")
        return b"".join(self.pieces(sha256))

    def open(self, sha256: str) -> BinaryIO:
        """Returns the bytes, checked, as a file to read at any place; one that is closed is gone."""
        path = self.path_of(sha256)
        if path is not None:
            return path.open("rb")
        copy = tempfile.TemporaryFile(dir=self._backend.scratch())  # noqa: SIM115  the caller closes it
        try:
            with _full_disk_told():
                copy.writelines(self.pieces(sha256))
            copy.seek(0)
            return copy
        except BaseException:
            copy.close()
            raise

    def copy_to(self, sha256: str, path: str | os.PathLike[str]) -> None:
        """Writes the bytes, checked, into a new file: all of it or nothing."""
        target = Path(path)
        with _full_disk_told():
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".part-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.writelines(self.pieces(sha256))
                os.replace(name, target)
            except BaseException:
                os.unlink(name)
                raise

    def path_of(self, sha256: str) -> Path | None:
        """Returns the path of the bytes on this host, checked when they are first asked for; None where the store is
        elsewhere. Nobody may write to it."""
        path = self._backend.path_of(key_of(sha256))
        if path is None:
            return None
        try:
            status = path.stat()
        except FileNotFoundError:
            raise ArtifactError(f"{self.url}: nothing is stored under {sha256}") from None
        state = (status.st_size, status.st_mtime_ns)
        if self._known_good.get(sha256) != state:
            for _ in self.pieces(sha256):
                pass
            if len(self._known_good) > 10_000:
                self._known_good.clear()
            self._known_good[sha256] = state
        return path

    def delete(self, sha256: str) -> None:
        """Removes the bytes; nothing happens where there are none."""
        self._known_good.pop(sha256, None)
        self._backend.delete(key_of(sha256))

    def listed(self) -> Iterator[tuple[Stored, float]]:
        """Yields everything stored, and when it was (seconds since 1970)."""
        for name, size, time_s in self._backend.listed():
            if re.fullmatch(r"[0-9a-f]{64}", name):
                yield Stored(name, size), time_s

    def usage(self) -> Usage:
        """Returns what is stored, counted one by one, and what is free."""
        sizes = [stored.size for stored, _ in self.listed()]
        return Usage(len(sizes), sum(sizes), self._backend.free_bytes())

    def free_bytes(self) -> int | None:
        """Returns the bytes left for more; None where the store cannot know."""
        return self._backend.free_bytes()

    def has_room(self) -> bool:
        """Returns whether more can be written."""
        free = self._backend.free_bytes()
        return free is None or free >= KEEP_FREE_BYTES


def key_of(sha256: str) -> str:
    """Returns where the bytes of this digest are. ArtifactError for what is no digest, such as a path."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ArtifactError(f"{sha256[:80]!r} is no SHA-256: wanted 64 hexadecimal digits")
    return f"sha/{sha256[:2]}/{sha256[2:4]}/{sha256}"


@contextlib.contextmanager
def _full_disk_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFullError(f"{error.filename or 'the artifact store'}: {error.strerror}") from error
        raise


def open_artifacts(url: str = "") -> Artifacts:
    """Returns the store at a folder's path, a file:// URL or one of fsspec (s3:// needs qverify[s3]); "" is
    default_folder(). UsageError where it cannot be used."""
    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://") or default_folder()).absolute()
        try:
            return Artifacts(str(folder), Folder(folder))
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}; wanted a folder for artifacts") from error
    return Artifacts(url, elsewhere(url))


def state_folder() -> Path:
    """Returns the folder of this user's database and artifacts: $XDG_STATE_HOME/qverify."""
    from qverify_agents.this_user import home

    return Path(os.environ.get("XDG_STATE_HOME") or home() / ".local" / "state") / "qverify"


def default_folder() -> Path:
    return state_folder() / "artifacts"
