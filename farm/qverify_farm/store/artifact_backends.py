"""The backends of the artifact store: a folder of this host, an object store, or a URL that fsspec opens."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Protocol

from qverify.errors import UsageError
from qverify.printable import printable

from qverify_farm.errors import StoreUnavailableError

MAX_PART_AGE_S = 86400.0  # an unfinished file that is older than this is removed
OBJECT_STORES = ("s3", "s3a", "gs", "az")
RETRY_TIMEOUT, MAX_RETRIES = timedelta(seconds=15), 3  # of a request to an object store
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class Backend(Protocol):
    """Stores bytes under keys of the form sha/ab/cd/DIGEST."""

    def path_of(self, key: str) -> Path | None:
        """Returns the file's path, or None if the store is not on this host."""

    def size_of(self, key: str) -> int | None:
        """Returns the size in bytes of the file with this key, or None if there is none."""

    def open(self, key: str) -> IO[bytes]:
        """Opens the file with this key for reading. Raises FileNotFoundError if there is none."""

    def place(self, part: Path, key: str) -> None:
        """Stores a finished file of scratch() under a key, completely or not at all. The file may be moved."""

    def delete(self, key: str) -> None:
        """Removes the file with this key, if there is one."""

    def rename(self, key: str, new_key: str) -> None:
        """Gives the file with this key another one, and replaces the file there. Raises FileNotFoundError if there is none."""

    def entries(self) -> Iterator[tuple[str, int, float]]:
        """Yields the name, the size in bytes and the time (seconds since 1970) of every stored file."""

    def scratch(self) -> Path:
        """Returns the folder on this host in which unfinished files are written."""

    def free_bytes(self) -> int | None:
        """Returns the number of free bytes, or None if it is unknown."""

    def check(self) -> None:
        """Raises StoreUnavailableError if the store cannot be reached."""


class FolderBackend:
    """A backend in a folder of this host."""

    def __init__(self, root: Path):
        self._root = root
        self._parts = root / "parts"
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._parts.mkdir(exist_ok=True, mode=0o700)
        _remove_old_parts(self._parts)

    def path_of(self, key: str) -> Path | None:
        return self._root / key

    def size_of(self, key: str) -> int | None:
        try:
            return (self._root / key).stat().st_size
        except FileNotFoundError:
            return None

    def open(self, key: str) -> IO[bytes]:
        return (self._root / key).open("rb")

    def place(self, part: Path, key: str) -> None:
        target = self._root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(part, 0o444)
        os.replace(part, target)

    def delete(self, key: str) -> None:
        (self._root / key).unlink(missing_ok=True)

    def rename(self, key: str, new_key: str) -> None:
        os.replace(self._root / key, self._root / new_key)

    def entries(self) -> Iterator[tuple[str, int, float]]:
        for path in (self._root / "sha").glob("*/*/*"):
            with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                status = path.stat()
                yield path.name, status.st_size, status.st_mtime

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self._root).free

    def check(self) -> None:
        pass


class FsspecBackend:
    """A backend at a URL that fsspec opens, such as memory:// or sftp://. Every method raises StoreUnavailableError if the store
    cannot be reached."""

    def __init__(self, filesystem: Any, root: str):
        self._fs, self._root = filesystem, root.rstrip("/")
        self._parts = Path(tempfile.mkdtemp(prefix="qverify-artifacts-"))
        weakref.finalize(self, shutil.rmtree, self._parts, True)

    def path_of(self, key: str) -> Path | None:
        return None

    def size_of(self, key: str) -> int | None:
        try:
            with _reach_store():
                return int(self._fs.info(f"{self._root}/{key}")["size"])
        except FileNotFoundError:
            return None

    def open(self, key: str) -> IO[bytes]:
        with _reach_store():
            return self._fs.open(f"{self._root}/{key}", "rb")

    def place(self, part: Path, key: str) -> None:
        with _reach_store():
            self._fs.makedirs(f"{self._root}/{key}".rpartition("/")[0], exist_ok=True)
            self._fs.put_file(str(part), f"{self._root}/{key}")

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), _reach_store():
            self._fs.rm_file(f"{self._root}/{key}")

    def rename(self, key: str, new_key: str) -> None:
        with _reach_store():
            self._fs.mv(f"{self._root}/{key}", f"{self._root}/{new_key}")

    def check(self) -> None:
        self.size_of("any")

    def entries(self) -> Iterator[tuple[str, int, float]]:
        with _reach_store():
            files = self._fs.find(f"{self._root}/sha", detail=True)
        for path, facts in files.items():
            times = [facts.get(key) for key in ("LastModified", "last_modified", "created", "mtime")]
            modified = next((entry for entry in times if entry is not None), time.time())
            yield (
                path.rpartition("/")[2],
                int(facts["size"]),
                getattr(modified, "timestamp", lambda w=modified: float(w))(),
            )

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return None


class ObjectStoreBackend:
    """A backend in an object store (s3://BUCKET/FOLDER, gs://, az://), which uses obstore. Credentials and endpoint come from
    environment variables (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...). Every method raises StoreUnavailableError if the store
    cannot be reached."""

    def __init__(self, library: Any, store: Any, errors: tuple[type[Exception], ...] = (OSError,)):
        self._obstore, self._store, self._errors = library, store, errors
        self._parts = Path(tempfile.mkdtemp(prefix="qverify-artifacts-"))
        weakref.finalize(self, shutil.rmtree, self._parts, True)

    def path_of(self, key: str) -> Path | None:
        return None

    def size_of(self, key: str) -> int | None:
        try:
            with _reach_store(self._errors):
                return int(self._obstore.head(self._store, key)["size"])
        except FileNotFoundError:
            return None

    def check(self) -> None:
        self.size_of("any")

    def open(self, key: str) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._parts)  # noqa: SIM115  the caller closes it
        try:
            with _reach_store(self._errors):
                for piece in self._obstore.get(self._store, key).stream():
                    file.write(piece)
            file.seek(0)
            return file
        except BaseException:
            file.close()
            raise

    def place(self, part: Path, key: str) -> None:
        try:
            with _reach_store(self._errors):
                self._obstore.put(self._store, key, part)
        except FileNotFoundError as error:
            raise StoreUnavailableError(f"the artifact store: {_short_reason(error)}") from error

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), _reach_store(self._errors):
            self._obstore.delete(self._store, key)

    def rename(self, key: str, new_key: str) -> None:
        with _reach_store(self._errors):
            self._obstore.rename(self._store, key, new_key)

    def entries(self) -> Iterator[tuple[str, int, float]]:
        with _reach_store(self._errors):
            for page in self._obstore.list(self._store, prefix="sha"):
                for entry in page:
                    yield entry["path"].rpartition("/")[2], int(entry["size"]), entry["last_modified"].timestamp()

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return None


@contextlib.contextmanager
def _reach_store(errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Turns errors of a store on another host into StoreUnavailableError, except for FileNotFoundError and a full disk here."""
    try:
        yield
    except FileNotFoundError:
        raise
    except errors as error:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            raise
        raise StoreUnavailableError(f"the artifact store is not reached: {_short_reason(error)}") from error


def _short_reason(error: Exception) -> str:
    """Returns an error of a library as one line, with the next step for known mistakes."""
    text = " ".join(str(error).partition("Debug source")[0].split())
    if "BadScheme" in str(error):
        return "its endpoint is http://, not https://. Next: AWS_ALLOW_HTTP=true allows that"
    if "NoSuchBucket" in str(error):
        return "there is no such bucket. Next: make it, or name another one"
    return printable(text)[:200] or type(error).__name__


def _remove_old_parts(folder: Path) -> None:
    """Removes unfinished files of processes that ended long ago."""
    for path in folder.glob("part-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - MAX_PART_AGE_S:
                path.unlink()


def backend_for_url(url: str) -> Backend:
    """Returns the backend for a URL. Raises UsageError if it cannot be used."""
    scheme = url.partition("://")[0]
    try:
        if scheme in OBJECT_STORES:
            import obstore
            import obstore.exceptions
            from obstore.store import from_url

            retries: Any = {"max_retries": MAX_RETRIES, "retry_timeout": RETRY_TIMEOUT}
            store = from_url(url, retry_config=retries)
            return ObjectStoreBackend(obstore, store, (obstore.exceptions.BaseError, OSError))
        import fsspec

        return FsspecBackend(*fsspec.url_to_fs(url))
    except ModuleNotFoundError as error:
        raise UsageError(f"--artifacts {scheme}://: needs {error.name}; pip install 'qverify[s3]'") from None
    except Exception as error:  # each library has its own exceptions for a wrong URL
        raise UsageError(f"--artifacts {url}: {' '.join(str(error).split())[:300]}") from error
