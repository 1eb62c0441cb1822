"""The files of jobs on a worker's disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qverify.errors import UsageError
from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.work.file_cache import FileCache, check_paths, sweep
from qverify_farm.work.job_task import StoredFile


def stored(store: ArtifactStore, path: str, data: bytes) -> StoredFile:
    kept = store.put_bytes(data)
    return StoredFile(path, kept.sha256, kept.size)


@pytest.fixture
def elsewhere(tmp_path: Path) -> ArtifactStore:
    """A store without paths on this host."""
    return open_artifacts(f"memory://{tmp_path.name}")


@pytest.mark.parametrize("kind", ["folder", "elsewhere"])
def test_files_have_their_paths_and_bytes(tmp_path: Path, elsewhere: ArtifactStore, kind: str) -> None:
    store = elsewhere if kind == "elsewhere" else open_artifacts(str(tmp_path / "store"))
    cache = FileCache(tmp_path / "cache")
    files = [stored(store, "m.onnx", b"model"), stored(store, "a/b/x.npy", b"x"), stored(store, "a/y.npy", b"x")]
    with cache.tree(files, store) as folder:
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with cache.tree(list(reversed(files)), store) as again:
            assert again == folder
    assert found == {"m.onnx": b"model", "a/b/x.npy": b"x", "a/y.npy": b"x"}
    cache.close()
    assert not folder.exists() and len(list((tmp_path / "cache/files").glob("*/*"))) == 2


def test_a_damaged_file_is_fetched_again(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    file = stored(elsewhere, "x", b"right")
    for _ in range(2):
        cache = FileCache(tmp_path)
        with cache.tree([file], elsewhere) as folder:
            assert (folder / "x").read_bytes() == b"right"
        cache.close()
        (kept,) = (tmp_path / "files").glob("*/*")
        kept.chmod(0o644)
        kept.write_bytes(b"wrong")


def change(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["folder", "elsewhere"])
@pytest.mark.parametrize("how", ["in place", "replaced", "removed"])
def test_a_file_that_changes_between_jobs_is_fetched_again(
    tmp_path: Path, elsewhere: ArtifactStore, kind: str, how: str
) -> None:
    """The cache lives on, and the store keeps its bytes."""
    store = elsewhere if kind == "elsewhere" else open_artifacts(str(tmp_path / "store"))
    cache, files = FileCache(tmp_path / "cache"), [stored(store, "a/x", b"right"), stored(store, "y", b"other")]
    with cache.tree(files, store) as folder:
        pass
    if how != "in place":
        (folder / "a/x").unlink()
    if how != "removed":
        (folder / "a/x").touch()
        change(folder / "a/x", b"wrong")
    with cache.tree(files, store) as again:
        assert again == folder and (folder / "a/x").read_bytes() == b"right"
    assert store.read(files[0].sha256) == b"right"
    with cache.tree([stored(store, "z", b"right")], store) as third:
        assert (third / "z").read_bytes() == b"right"


def test_the_cache_shares_no_file_with_the_store(tmp_path: Path) -> None:
    store = open_artifacts(str(tmp_path / "store"))
    file = stored(store, "x", b"right")
    with FileCache(tmp_path / "cache").tree([file], store) as folder:
        path = store.path_of(file.sha256)
        assert path is not None and path.stat().st_nlink == 1 and not (folder / "x").samefile(path)
        assert (folder / "x").stat().st_mode & 0o222 == 0


def test_a_file_that_changes_during_a_job_ends_it(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    """This is so also if another job has the file repaired meanwhile."""
    cache, file = FileCache(tmp_path), stored(elsewhere, "x", b"right")
    for repaired in (False, True):
        with pytest.raises(ArtifactError, match="x: it changed in this"), cache.tree([file], elsewhere) as folder:
            change(folder / "x", b"wrong")
            if repaired:
                with cache.tree([file], elsewhere) as again:
                    assert (again / "x").read_bytes() == b"right"
    with cache.tree([file], elsewhere) as folder:
        assert (folder / "x").read_bytes() == b"right"


def test_a_changed_file_is_not_used_if_it_cannot_be_fetched(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    """Neither by the next job nor by the one after it."""
    cache, file = FileCache(tmp_path), stored(elsewhere, "x", b"right")
    with cache.tree([file], elsewhere) as folder:
        pass
    change(folder / "x", b"wrong")
    elsewhere.delete(file.sha256)
    for _ in range(2):
        with pytest.raises(ArtifactError, match="nothing is stored"), cache.tree([file], elsewhere):
            pass


def test_missing_or_different_bytes_are_refused(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    cache, file = FileCache(tmp_path), stored(elsewhere, "x", b"right")
    for wrong in (StoredFile("x", "1" * 64, 5), StoredFile("x", file.sha256, 4), StoredFile("x", "../../x", 5)):
        with pytest.raises(ArtifactError), cache.tree([wrong], elsewhere):
            pass
    with cache.tree([file], elsewhere) as folder:
        assert (folder / "x").read_bytes() == b"right"


@pytest.mark.parametrize(
    "paths",
    [
        ["/x"],
        ["../x"],
        ["a/../x"],
        ["a//x"],
        ["./x"],
        [""],
        ["a\\x"],
        ["a,b"],
        ["c:x"],
        ["x\0"],
        ["x", "x"],
        ["x", "x/y"],
    ],
)
def test_paths_that_are_refused(tmp_path: Path, paths: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^file "):
        check_paths(paths)


def test_the_least_recently_used_are_removed(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    """With a limit of 100 bytes there is no room for a third file of 40 bytes; the first was used more recently."""
    files = [stored(elsewhere, "x", bytes([at]) * 40) for at in range(3)]
    for at in (0, 1, 0, 2):
        cache = FileCache(tmp_path, 100)
        with cache.tree([files[at]], elsewhere) as folder:
            assert (folder / "x").read_bytes() == bytes([at]) * 40
        cache.close()
    left = {path.name for path in (tmp_path / "files").glob("*/*")}
    assert left == {files[0].sha256, files[2].sha256}


def test_files_in_use_stay_when_the_cache_removes_them(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    cache, file = FileCache(tmp_path), stored(elsewhere, "x", b"right")
    with cache.tree([file], elsewhere) as folder:
        sweep(tmp_path / "files", "*/*", 0)
        assert not list((tmp_path / "files").glob("*/*")) and (folder / "x").read_bytes() == b"right"


def test_folders_of_ended_processes_are_removed(tmp_path: Path, elsewhere: ArtifactStore) -> None:
    file, dead = stored(elsewhere, "x", b"right"), tmp_path / "trees" / "0123"
    dead.mkdir(parents=True)
    (tmp_path / "trees" / "0123.lock").touch()
    living = FileCache(tmp_path)
    with living.tree([file], elsewhere) as folder:
        other = FileCache(tmp_path)
        assert not dead.exists() and (folder / "x").exists()
        other.close()
        assert (folder / "x").exists()
    assert [name for name in os.listdir(tmp_path / "trees") if name.endswith(".lock")] == [f"{folder.parent.name}.lock"]


def test_a_cache_folder_with_a_comma_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no comma"):
        FileCache(tmp_path / "a,b")
