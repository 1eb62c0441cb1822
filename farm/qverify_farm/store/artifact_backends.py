"""Where the artifact store keeps its bytes: a folder of this host, an object store, or a URL that fsspec opens."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from qverify.errors import UsageError

LEFT_BEHIND_S = 86400.0  # after it a part that was being written belongs to nobody
OBJECT_STORES = ("s3", "s3a", "gs", "az")


class Backend(Protocol):
    """Where the bytes are. key: sha/ab/cd/DIGEST."""

    def path_of(self, key: str) -> Path | None:
        """Returns the file's path on this host; None where the store is elsewhere."""

    def size_of(self, key: str) -> int | None:
        """Returns the bytes stored under this key; None where there are none."""

    def open(self, key: str) -> IO[bytes]:
        """Returns the bytes to read. FileNotFoundError where there are none."""

    def place(self, part: Path, key: str) -> None:
        """Puts a finished file of scratch() at its key, all of it or nothing; the part may be moved."""

    def delete(self, key: str) -> None:
        """Removes what is under this key, if anything."""

    def listed(self) -> Iterator[tuple[str, int, float]]:
        """Yields name, bytes and time (seconds since 1970) of everything stored."""

    def scratch(self) -> Path:
        """Returns the folder on this host where parts are written."""

    def free_bytes(self) -> int | None:
        """Returns the bytes left for more; None where the store cannot know."""


class Folder:
    """A backend in a folder of this host."""

    def __init__(self, root: Path):
        self._root = root
        self._parts = root / "parts"
        self._parts.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_left_behind(self._parts)

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

    def listed(self) -> Iterator[tuple[str, int, float]]:
        for path in (self._root / "sha").glob("*/*/*"):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                status = path.stat()
                yield path.name, status.st_size, status.st_mtime

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return shutil.disk_usage(self._root).free


class Elsewhere:
    """A backend at a URL that fsspec opens, such as memory:// or sftp://."""

    def __init__(self, filesystem: Any, root: str):
        self._fs, self._root = filesystem, root.rstrip("/")
        self._parts = Path(tempfile.mkdtemp(prefix="qverify-artifacts-"))
        weakref.finalize(self, shutil.rmtree, self._parts, True)

    def path_of(self, key: str) -> Path | None:
        return None

    def size_of(self, key: str) -> int | None:
        try:
            return int(self._fs.info(f"{self._root}/{key}")["size"])
        except FileNotFoundError:
            return None

    def open(self, key: str) -> IO[bytes]:
        return self._fs.open(f"{self._root}/{key}", "rb")

    def place(self, part: Path, key: str) -> None:
        self._fs.makedirs(f"{self._root}/{key}".rpartition("/")[0], exist_ok=True)
        self._fs.put_file(str(part), f"{self._root}/{key}")

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._root}/{key}")

    def listed(self) -> Iterator[tuple[str, int, float]]:
        for path, facts in self._fs.find(f"{self._root}/sha", detail=True).items():
            times = [facts.get(key) for key in ("LastModified", "last_modified", "created", "mtime")]
            when = next((one for one in times if one is not None), time.time())
            yield path.rpartition("/")[2], int(facts["size"]), getattr(when, "timestamp", lambda w=when: float(w))()

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return None


class Objects:
    """A backend in an object store, by obstore: s3://BUCKET/FOLDER, gs://, az://. Login and endpoint are in the environment
    (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...)."""

    def __init__(self, library: Any, store: Any):
        self._obstore, self._store = library, store
        self._parts = Path(tempfile.mkdtemp(prefix="qverify-artifacts-"))
        weakref.finalize(self, shutil.rmtree, self._parts, True)

    def path_of(self, key: str) -> Path | None:
        return None

    def size_of(self, key: str) -> int | None:
        try:
            return int(self._obstore.head(self._store, key)["size"])
        except FileNotFoundError:
            return None

    def open(self, key: str) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._parts)  # noqa: SIM115  the caller closes it
        try:
            for piece in self._obstore.get(self._store, key).stream():
                file.write(piece)
            file.seek(0)
            return file
        except BaseException:
            file.close()
            raise

    def place(self, part: Path, key: str) -> None:
        self._obstore.put(self._store, key, part)

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, key)

    def listed(self) -> Iterator[tuple[str, int, float]]:
        for some in self._obstore.list(self._store, prefix="sha"):
            for one in some:
                yield one["path"].rpartition("/")[2], int(one["size"]), one["last_modified"].timestamp()

    def scratch(self) -> Path:
        return self._parts

    def free_bytes(self) -> int | None:
        return None


def _remove_left_behind(folder: Path) -> None:
    """Removes the parts of processes that ended long ago."""
    for path in folder.glob("part-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - LEFT_BEHIND_S:
                path.unlink()


def elsewhere(url: str) -> Backend:
    """Returns the backend at this URL. UsageError where it cannot be used."""
    scheme = url.partition("://")[0]
    try:
        if scheme in OBJECT_STORES:
            import obstore
            from obstore.store import from_url

            return Objects(obstore, from_url(url))
        import fsspec

        return Elsewhere(*fsspec.url_to_fs(url))
    except ModuleNotFoundError as error:
        raise UsageError(f"--artifacts {scheme}://: needs {error.name}; pip install 'qverify[s3]'") from None
    except Exception as error:  # each library has errors of its own for a URL that it does not take
        raise UsageError(f"--artifacts {url}: {' '.join(str(error).split())[:300]}") from error
