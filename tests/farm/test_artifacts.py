"""The artifact store: stored bytes are read back and checked, nothing is half-written, a full disk is recognized."""

from __future__ import annotations

import hashlib
import io
import os
import time
from pathlib import Path
from typing import Any

import pytest
from qverify.errors import UsageError
from qverify_farm.errors import ArtifactError, StoreFullError, StoreUnavailableError
from qverify_farm.store import artifacts as module
from qverify_farm.store.artifact_backends import ObjectStoreBackend
from qverify_farm.store.artifacts import ArtifactStore, ArtifactWriter, open_artifacts

DATA = b"activations" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    return open_artifacts(str(tmp_path / "store") if request.param == "folder" else f"memory://{tmp_path}")


def test_stored_bytes_are_read_back(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(DATA)
    stored = store.put_file(tmp_path / "m.onnx")
    assert (stored.sha256, stored.size) == (DIGEST, len(DATA)) and store.exists(DIGEST)
    assert store.put_bytes(DATA) == stored == store.put_stream([DATA[:5], DATA[5:]], expected=DIGEST)
    assert store.read(DIGEST) == DATA and store.size_of(DIGEST) == len(DATA)
    with store.open(DIGEST) as file:
        file.seek(11)
        assert file.read(11) == b"activations"
    store.copy_to(DIGEST, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    assert [(one, type(when)) for one, when in store.entries()] == [(stored, float)]
    assert (store.usage().files, store.usage().bytes) == (1, len(DATA))
    store.delete(DIGEST)
    store.delete(DIGEST)
    assert not store.exists(DIGEST) and store.usage().files == 0


def test_artifacts_in_a_folder_have_a_path(tmp_path: Path) -> None:
    store = open_artifacts(f"file://{tmp_path}")
    store.put_bytes(DATA)
    assert store.path_of(DIGEST) == tmp_path / "sha" / DIGEST[:2] / DIGEST[2:4] / DIGEST
    assert open_artifacts("memory://nowhere").path_of(DIGEST) is None


def test_missing_artifacts_are_reported(store: ArtifactStore, tmp_path: Path) -> None:
    for act in (store.read, store.open, lambda digest: store.copy_to(digest, tmp_path / "copy")):
        with pytest.raises(ArtifactError, match=f"nothing is stored under {DIGEST}"):
            act(DIGEST)
    assert not (tmp_path / "copy").exists() and not list(tmp_path.glob(".part*"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "", DIGEST.upper(), DIGEST[:-1], DIGEST + "\n"])
def test_a_path_is_not_accepted_as_a_digest(store: ArtifactStore, name: str) -> None:
    for act in (store.read, store.open, store.exists, store.delete, store.path_of):
        with pytest.raises(ArtifactError, match="wanted 64 hexadecimal digits"):
            act(name)


WRONG = DATA[:-1] + b"?"


def object_store() -> ArtifactStore:
    import obstore
    from obstore.store import MemoryStore

    return ArtifactStore("s3://bucket", ObjectStoreBackend(obstore, MemoryStore()))


@pytest.fixture(params=["folder", "memory", "object store"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    if request.param == "object store":
        return object_store()
    return open_artifacts(str(tmp_path / "store") if request.param == "folder" else f"memory://{tmp_path}")


def damage(store: ArtifactStore, tmp_path: Path, data: bytes = WRONG) -> None:
    """Replaces the bytes of DIGEST in the store."""
    (tmp_path / "wrong").write_bytes(data)
    store._backend.place(tmp_path / "wrong", module.key_of(DIGEST))


def test_damaged_bytes_are_never_returned(any_store: ArtifactStore, tmp_path: Path) -> None:
    """Whoever finds the damage moves the bytes aside, so that the artifact is missing."""
    store = any_store
    for act in (store.read, store.open, lambda digest: store.copy_to(digest, tmp_path / "copy")):
        store.put_bytes(DATA)
        damage(store, tmp_path)
        with pytest.raises(ArtifactError, match="were damaged"):
            act(DIGEST)
        assert not store.exists(DIGEST) and list(store.entries()) == []
        with pytest.raises(ArtifactError, match="nothing is stored"):
            act(DIGEST)
    assert not (tmp_path / "copy").exists()
    aside = [(name, size) for name, size, _ in store._backend.entries()]
    assert aside == [(f"{DIGEST}.damaged", len(WRONG))]
    store.put_bytes(DATA)
    store.delete_damaged(0.0)
    assert len(list(store._backend.entries())) == 2
    store.delete_damaged(time.time() + 60)
    assert [name for name, _, _ in store._backend.entries()] == [DIGEST] and store.read(DIGEST) == DATA


@pytest.mark.parametrize("wrong", [WRONG, DATA[:-1]])
def test_the_right_bytes_replace_damaged_ones(any_store: ArtifactStore, tmp_path: Path, wrong: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(DATA)
    for put in (
        lambda: any_store.put_bytes(DATA),
        lambda: any_store.put_file(tmp_path / "m.onnx"),
        lambda: any_store.put_stream([DATA], expected=DIGEST),
    ):
        any_store.put_bytes(DATA)
        damage(any_store, tmp_path, wrong)
        put()
        assert any_store.read(DIGEST) == DATA


def test_right_bytes_that_were_read_wrong_stay(
    any_store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reading fails, as after an error of the network."""
    any_store.put_bytes(DATA)
    with monkeypatch.context() as patched:
        right, opened = any_store._backend.open, list[str]()

        def read_wrong_once(key: str) -> Any:
            opened.append(key)
            return io.BytesIO(WRONG) if len(opened) == 1 else right(key)

        patched.setattr(any_store._backend, "open", read_wrong_once)
        with pytest.raises(ArtifactError, match="were damaged"):
            any_store.read(DIGEST)
    assert any_store.read(DIGEST) == DATA and len(list(any_store._backend.entries())) == 1


def test_a_failed_write_leaves_nothing(store: ArtifactStore) -> None:
    with pytest.raises(UsageError, match="more than 10 bytes"):
        store.put_stream([DATA], limit=10)
    with pytest.raises(ArtifactError, match=f"SHA-256 is {DIGEST}, wanted {'0' * 64}"):
        store.put_stream([DATA], expected="0" * 64)
    with pytest.raises(RuntimeError), store.writer() as writer:
        writer.write(DATA)
        raise RuntimeError
    assert store.usage().files == 0 and not list(store._backend.scratch().iterdir())


def test_a_too_large_artifact_is_refused_before_it_is_read(store: ArtifactStore) -> None:
    store.put_bytes(DATA)
    with pytest.raises(ArtifactError, match="11000 bytes, wanted at most 10"):
        store.read(DIGEST, limit=10)


def test_old_unfinished_files_are_removed(tmp_path: Path) -> None:
    open_artifacts(str(tmp_path))
    for name in ("part-old", "part-new"):
        (tmp_path / "parts" / name).touch()
    os.utime(tmp_path / "parts" / "part-old", (1, 1))
    open_artifacts(str(tmp_path))
    assert [one.name for one in (tmp_path / "parts").iterdir()] == ["part-new"]


def test_a_full_disk_raises_store_full_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(StoreFullError, match="No space left"):
        ArtifactWriter(full, None).write(DATA)  # type: ignore[arg-type]
    store = open_artifacts(str(tmp_path))
    assert store.why_unavailable() == ""
    monkeypatch.setattr(module, "KEEP_FREE_BYTES", 1 << 62)
    assert "the artifact store is full" in store.why_unavailable()
    with pytest.raises(StoreFullError, match="MB are free"):
        store.put_bytes(DATA)


@pytest.mark.parametrize("url", ["nothing://x", "/dev/null/x"])
def test_a_store_that_cannot_be_opened_is_one_line(url: str) -> None:
    with pytest.raises(UsageError) as error:
        open_artifacts(url)
    assert "\n" not in str(error.value) and url in str(error.value)


def test_an_object_store_works_like_a_folder(tmp_path: Path) -> None:
    """Uses obstore's store in memory, with the same calls as for s3://."""
    import obstore
    from obstore.store import MemoryStore

    store = ArtifactStore("memory", ObjectStoreBackend(obstore, MemoryStore()))
    stored = store.put_bytes(DATA)
    assert store.read(DIGEST) == DATA and store.size_of(DIGEST) == len(DATA) and store.path_of(DIGEST) is None
    with store.open(DIGEST) as file:
        file.seek(11)
        assert file.read(11) == b"activations"
    assert [one for one, _ in store.entries()] == [stored]
    store.copy_to(DIGEST, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    store.delete(DIGEST)
    store.delete(DIGEST)
    assert not store.exists(DIGEST)
    with pytest.raises(ArtifactError, match="nothing is stored"):
        store.read(DIGEST)


def test_object_stores_are_opened_by_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a store contacts no server."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert isinstance(open_artifacts("s3://bucket/qverify")._backend, ObjectStoreBackend)
    with pytest.raises(UsageError, match="--artifacts s3://:"):
        open_artifacts("s3://")


class GenericError(Exception):
    """Stands for the error that obstore raises, so that the test needs no obstore."""


class AwayStore:
    """A store on another host that cannot be reached."""

    text = "Generic S3 error: Error performing HEAD http://127.0.0.1:9/b/k in 1s\n\nDebug source:\nRequestError"

    def _fail(self, *_: object, **__: object) -> Any:
        raise GenericError(self.text)

    head = get = put = delete = list = _fail


def away(text: str = AwayStore.text) -> ArtifactStore:
    library = AwayStore()
    library.text = text
    return ArtifactStore("s3://bucket", ObjectStoreBackend(library, None, (GenericError, OSError)))


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.check(),
        lambda store: store.exists(DIGEST),
        lambda store: store.read(DIGEST),
        lambda store: store.open(DIGEST),
        lambda store: store.delete(DIGEST),
        lambda store: store.put_bytes(b"abc"),
        lambda store: store.read_note("n"),
        lambda store: list(store.entries()),
    ],
)
def test_a_store_that_is_not_reached_is_unavailable(use: Any) -> None:
    with pytest.raises(StoreUnavailableError, match=r"the artifact store is not reached: Generic S3 error: .* in 1s$"):
        use(away())


@pytest.mark.parametrize(
    ("text", "words"),
    [("builder error BadScheme", "AWS_ALLOW_HTTP=true"), ("<Code>NoSuchBucket</Code>", "no such bucket")],
)
def test_known_mistakes_have_a_next_step(text: str, words: str) -> None:
    assert words in away(text).why_unavailable()
