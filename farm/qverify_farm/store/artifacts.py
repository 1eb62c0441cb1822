"""The artifact store: bytes under their SHA-256, in a folder (sha/ab/cd/DIGEST), an object store, or at an fsspec URL."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from qverify.errors import UsageError

from qverify_farm.errors import ArtifactError, StoreFullError, StoreUnavailableError
from qverify_farm.store.artifact_backends import FULL_DISK, Backend, FolderBackend, backend_for_url

PIECE_BYTES = 1 << 20  # bytes read or written at a time
MAX_NOTE_BYTES = 4096
DAMAGED = ".damaged"  # ends the names of damaged bytes that were moved aside
REACHED_S = 5.0  # a store that was reached is not checked again for so long
KEEP_FREE_BYTES = 64 << 20  # bytes of a local disk that stay free, since the database may be on the same disk


@dataclass(frozen=True, slots=True)
class Stored:
    """An artifact in the store: its SHA-256 as 64 hexadecimal digits, and its size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of stored files, their total size in bytes, and the number of free bytes (None if it is unknown)."""

    files: int
    bytes: int
    free_bytes: int | None


class ArtifactWriter:
    """Writes a new artifact into a file of the scratch folder. limit: the largest permitted size in bytes, or None."""

    def __init__(self, file: BinaryIO, limit: int | None):
        self._file, self._limit = file, limit
        self._hash, self.size = hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> None:
        """Appends bytes. Raises UsageError above the limit, and StoreFullError on a full disk."""
        self.size += len(data)
        if self._limit is not None and self.size > self._limit:
            raise UsageError(f"more than {self._limit} bytes")
        self._hash.update(data)
        with _raise_store_full():
            self._file.write(data)

    @property
    def stored(self) -> Stored:
        return Stored(self._hash.hexdigest(), self.size)


class ArtifactStore:
    """The artifact store at a URL. A stored artifact never changes, and its bytes are checked against the digest when they are
    read: ArtifactError is raised if they are missing or damaged. Damaged bytes are moved aside, so that the artifact is missing
    until it is stored again. StoreFullError is raised if there is no room to write, and
    StoreUnavailableError if the store is not reached."""

    def __init__(self, url: str, backend: Backend):
        self.url, self._backend = url, backend
        self._reached_until = float("-inf")  # in monotonic seconds
        self._checked: dict[str, tuple[int, int]] = {}  # size and time of the local files with a checked digest

    @contextlib.contextmanager
    def writer(self, limit: int | None = None, expected: str = "") -> Iterator[ArtifactWriter]:
        """Yields a writer. Its bytes are in the store after the `with` block, unless there was an exception; they replace those
        that were stored under their digest, which may be damaged. expected: the required digest, or "" for any; ArtifactError
        is raised if the bytes have another."""
        with _raise_store_full():
            free = self._backend.free_bytes()
            if free is not None and free < KEEP_FREE_BYTES:
                raise StoreFullError(f"{self.url}: {free >> 20} MB are free, {KEEP_FREE_BYTES >> 20} MB must stay so")
            handle, name = tempfile.mkstemp(dir=self._backend.scratch(), prefix="part-")
        part = Path(name)
        try:
            with _raise_store_full(), os.fdopen(handle, "wb") as file:
                writer = ArtifactWriter(file, limit)
                yield writer
            stored = writer.stored
            if expected and stored.sha256 != expected:
                raise ArtifactError(f"SHA-256 is {stored.sha256}, wanted {expected}")
            with _raise_store_full():
                self._backend.place(part, key_of(stored.sha256))
        finally:
            part.unlink(missing_ok=True)

    def put_stream(self, pieces: Iterable[bytes], limit: int | None = None, expected: str = "") -> Stored:
        """Stores the concatenated pieces and returns their digest and size. Arguments and errors are as for writer()."""
        with self.writer(limit, expected) as writer:
            for piece in pieces:
                writer.write(piece)
        return writer.stored

    def put_bytes(self, data: bytes) -> Stored:
        """Stores these bytes and returns their digest and size."""
        return self.put_stream([data])

    def put_file(self, path: str | os.PathLike[str], limit: int | None = None) -> Stored:
        """Stores the bytes of a file, which is read once, and returns their digest and size."""
        with open(path, "rb") as file:
            return self.put_stream(iter(lambda: file.read(PIECE_BYTES), b""), limit)

    def write_note(self, name: str, text: bytes) -> None:
        """Writes a small file beside the artifacts, completely or not at all. name: not a path."""
        handle, part = tempfile.mkstemp(dir=self._backend.scratch(), prefix="part-")
        try:
            with _raise_store_full():
                with os.fdopen(handle, "wb") as file:
                    file.write(text)
                self._backend.place(Path(part), name)
        finally:
            Path(part).unlink(missing_ok=True)

    def read_note(self, name: str) -> bytes | None:
        """Returns the first bytes of a file of write_note(), at most MAX_NOTE_BYTES, or None if there is none."""
        try:
            with self._backend.open(name) as file:
                return file.read(MAX_NOTE_BYTES)
        except FileNotFoundError:
            return None

    def exists(self, sha256: str) -> bool:
        return self._backend.size_of(key_of(sha256)) is not None

    def size_of(self, sha256: str) -> int | None:
        """Returns the size of an artifact in bytes, or None if it is not stored."""
        return self._backend.size_of(key_of(sha256))

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """Yields the bytes of an artifact in pieces. If they do not match the digest, ArtifactError is raised at the end, so
        the caller must not use them before."""
        digest = hashlib.sha256()
        try:
            with self._backend.open(key_of(sha256)) as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
                    yield piece
        except FileNotFoundError:
            raise ArtifactError(f"{self.url}: nothing is stored under {sha256}") from None
        if digest.hexdigest() != sha256:
            self._set_aside(sha256)
            raise ArtifactError(f"{self.url}: {sha256}: its bytes were damaged; their SHA-256 is {digest.hexdigest()}")

    def _set_aside(self, sha256: str) -> None:
        """Moves the damaged bytes of an artifact to another name. They are moved back if a second reading finds them right, as
        after an error of the network, or if somebody has just replaced them."""
        key = key_of(sha256)
        with contextlib.suppress(OSError, StoreUnavailableError):
            self._backend.rename(key, key + DAMAGED)
            digest = hashlib.sha256()
            with self._backend.open(key + DAMAGED) as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
            if digest.hexdigest() == sha256:
                self._backend.rename(key + DAMAGED, key)

    def read(self, sha256: str, limit: int = 1 << 30) -> bytes:
        """Returns the checked bytes of an artifact. Raises ArtifactError, without reading it, if it is larger than `limit`."""
        size = self.size_of(sha256)
        if size is not None and size > limit:
            raise ArtifactError(f"{self.url}: {sha256}: {size} bytes, wanted at most {limit}")
        return b"".join(self.pieces(sha256))

    def open(self, sha256: str) -> BinaryIO:
        """Returns the checked bytes of an artifact as a seekable file. A temporary file is removed when it is closed."""
        path = self.path_of(sha256)
        if path is not None:
            return path.open("rb")
        copy = tempfile.TemporaryFile(dir=self._backend.scratch())  # noqa: SIM115  the caller closes it
        try:
            with _raise_store_full():
                copy.writelines(self.pieces(sha256))
            copy.seek(0)
            return copy
        except BaseException:
            copy.close()
            raise

    def copy_to(self, sha256: str, path: str | os.PathLike[str]) -> None:
        """Writes the checked bytes of an artifact into a new file, completely or not at all."""
        target = Path(path)
        with _raise_store_full():
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".part-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.writelines(self.pieces(sha256))
                os.replace(name, target)
            except BaseException:
                os.unlink(name)
                raise

    def path_of(self, sha256: str) -> Path | None:
        """Returns the path of an artifact, or None if the store is not on this host. The bytes are checked the first time. The
        caller must not write to the file."""
        path = self._backend.path_of(key_of(sha256))
        if path is None:
            return None
        try:
            status = path.stat()
        except FileNotFoundError:
            raise ArtifactError(f"{self.url}: nothing is stored under {sha256}") from None
        state = (status.st_size, status.st_mtime_ns)
        if self._checked.get(sha256) != state:
            for _ in self.pieces(sha256):
                pass
            if len(self._checked) > 10_000:
                self._checked.clear()
            self._checked[sha256] = state
        return path

    def delete(self, sha256: str) -> None:
        """Removes an artifact, if it is stored."""
        self._checked.pop(sha256, None)
        self._backend.delete(key_of(sha256))

    def delete_damaged(self, before: float) -> None:
        """Removes the damaged bytes that were moved aside, if they are older than `before` (seconds since 1970)."""
        for name, _, time_s in list(self._backend.entries()):
            if time_s < before and re.fullmatch(rf"[0-9a-f]{{64}}{re.escape(DAMAGED)}", name):
                self._backend.delete(key_of(name.removesuffix(DAMAGED)) + DAMAGED)

    def entries(self) -> Iterator[tuple[Stored, float]]:
        """Yields every artifact and the time at which it was stored (seconds since 1970)."""
        for name, size, time_s in self._backend.entries():
            if re.fullmatch(r"[0-9a-f]{64}", name):
                yield Stored(name, size), time_s

    def usage(self) -> Usage:
        """Returns the number and the size of all artifacts, by listing them, and the free space."""
        sizes = [stored.size for stored, _ in self.entries()]
        return Usage(len(sizes), sum(sizes), self._backend.free_bytes())

    def free_bytes(self) -> int | None:
        """Returns the number of free bytes, or None if it is unknown."""
        return self._backend.free_bytes()

    def check(self) -> None:
        """Raises StoreFullError if there is no room to write more, and StoreUnavailableError if the store is not reached. The
        answer of a store on another host is kept for some seconds."""
        free = self._backend.free_bytes()
        if free is not None and free < KEEP_FREE_BYTES:
            raise StoreFullError(f"the artifact store is full: {free >> 20} MB are free")
        if time.monotonic() < self._reached_until:
            return
        self._backend.check()
        self._reached_until = time.monotonic() + REACHED_S

    def why_unavailable(self) -> str:
        """Returns why the store cannot be used at present, or ""."""
        try:
            self.check()
            return ""
        except StoreUnavailableError as error:
            return str(error)


def key_of(sha256: str) -> str:
    """Returns the backend's key for a digest. Raises ArtifactError for anything that is not a digest, such as a path."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ArtifactError(f"{sha256[:80]!r} is no SHA-256: wanted 64 hexadecimal digits")
    return f"sha/{sha256[:2]}/{sha256[2:4]}/{sha256}"


@contextlib.contextmanager
def _raise_store_full() -> Iterator[None]:
    """Turns an OSError about a full disk into StoreFullError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise StoreFullError(f"{error.filename or 'the artifact store'}: {error.strerror}") from error
        raise


def open_artifacts(url: str = "") -> ArtifactStore:
    """Returns the store at a folder's path, a file:// URL or a URL of fsspec (s3:// needs qverify[s3]); "" stands for
    default_folder(). Raises UsageError if it cannot be used."""
    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://") or default_folder()).absolute()
        try:
            return ArtifactStore(str(folder), FolderBackend(folder))
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}; wanted a folder for artifacts") from error
    return ArtifactStore(url, backend_for_url(url))


def state_folder() -> Path:
    """Returns the folder of this user's database and artifacts: $XDG_STATE_HOME/qverify."""
    from qverify_agents.this_user import home

    return Path(os.environ.get("XDG_STATE_HOME") or home() / ".local" / "state") / "qverify"


def default_folder() -> Path:
    return state_folder() / "artifacts"
