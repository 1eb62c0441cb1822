"""The archive of the files that a runner wrote: new regular files are unpacked, others refused, a damaged archive is an error."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from qverify.errors import BoardError
from qverify.sides import runner_files
from qverify.sides.runner_files import unpack

BEGAN_S = 1_000_000


def member(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, mtime: int = BEGAN_S, link: str = ""
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.mtime, made.linkname = kind, size, mtime, link
    return made


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as files:
        for info, data in members:
            files.addfile(info, io.BytesIO(data))
    return made


def refused(info: tarfile.TarInfo, folder: Path) -> str:
    """Returns why a file is refused, and asserts that nothing of it was written."""
    folder.mkdir()
    (why,) = unpack(archive((info, bytes(info.size))), str(folder), BEGAN_S).values()
    assert list(folder.iterdir()) == []
    return why


def test_new_regular_files_are_written_in_their_folders(tmp_path: Path) -> None:
    files = archive(
        (member("./", tarfile.DIRTYPE), b""),
        (member("./a.npy", size=3), b"abc"),
        (member("./deep/er/b.bin", size=2, mtime=BEGAN_S - 2), b"xy"),  # FAT stores even seconds
    )
    assert unpack(files, str(tmp_path), BEGAN_S) == {}
    assert (tmp_path / "a.npy").read_bytes() == b"abc" and (tmp_path / "deep/er/b.bin").read_bytes() == b"xy"


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (member("../out"), "not a name of a file in its folder"),
        (member("/etc/out"), "not a name of a file in its folder"),
        (member("a/b/c/d"), "not a name of a file in its folder"),
        (member("new\nline"), "not a name of a file in its folder"),
        (member("l", tarfile.SYMTYPE, link="/etc/passwd"), "a link to '/etc/passwd', not a new file"),
        (member("l", tarfile.LNKTYPE, link="a"), "a link to 'a', not a new file"),
        (member("p", tarfile.FIFOTYPE), "not a regular file"),
        (member("d", tarfile.CHRTYPE), "not a regular file"),
        (member("old", mtime=BEGAN_S - 3), "3 s older than this run: a stale file"),
    ],
)
def test_other_members_are_refused(info: tarfile.TarInfo, said: str, tmp_path: Path) -> None:
    assert refused(info, tmp_path / "into") == said


def test_without_a_clock_nothing_is_stale(tmp_path: Path) -> None:
    assert unpack(archive((member("old", mtime=0, size=1), b"x")), str(tmp_path), None) == {}
    assert (tmp_path / "old").read_bytes() == b"x"


def test_a_file_too_large_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_files, "MAX_FILE_BYTES", 4)
    assert refused(member("large", size=5), tmp_path / "into") == "5 bytes, at most 4 are read"


def test_a_file_that_is_there_twice_is_kept_once(tmp_path: Path) -> None:
    files = archive((member("a", size=1), b"1"), (member("a", size=1), b"2"))
    assert unpack(files, str(tmp_path), BEGAN_S) == {"a": "the archive contains it twice"}
    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_file_where_a_folder_is_wanted(tmp_path: Path) -> None:
    files = archive((member("a", size=1), b"1"), (member("a/b", size=1), b"2"))
    (why,) = unpack(files, str(tmp_path), BEGAN_S).values()
    assert why in ("it cannot be written here: Not a directory", "the archive contains it twice")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_more_files_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_files, "MAX_FILES", 2)
    with pytest.raises(BoardError, match="the runner left more than 2 files"):
        unpack(archive(*((member(f"{k}"), b"") for k in range(3))), str(tmp_path), BEGAN_S)


def test_no_archive_at_all(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="the board sent no archive of the files; does it have tar"):
        unpack(io.BytesIO(), str(tmp_path), BEGAN_S)


@pytest.mark.parametrize("kept", [100, 511, 512, 700, 1024, 1535])
def test_an_archive_that_ends_too_early(kept: int, tmp_path: Path) -> None:
    """Two files of 512 bytes with a header of 512 bytes each: whatever is cut off, the run has no result."""
    whole = archive((member("a", size=512), b"a" * 512), (member("b", size=512), b"b" * 512)).getvalue()
    with pytest.raises(BoardError, match="the archive of the runner's files") as error:
        unpack(io.BytesIO(whole[:kept]), str(tmp_path), BEGAN_S)
    assert str(kept) in str(error.value) or "ends within 'a'" in str(error.value)


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"the archive of the runner's files, byte \d+ of 2000: "):
        unpack(io.BytesIO(b"sh: tar: not found\n" * 100 + b"?" * 100), str(tmp_path), BEGAN_S)
