"""Files of a dump: no more is read than they have and than the limits allow, and nothing outside of their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qverify.errors import BadFileError
from qverify.vendor_files import untrusted_files
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder


def made(path: Path, data: bytes) -> UntrustedFile:
    path.write_bytes(data)
    return UntrustedFile(str(path))


def test_only_the_bytes_that_a_file_has(tmp_path: Path) -> None:
    file = made(tmp_path / "a", b"0123456789")
    assert file.read(2, 3) == b"234" and file.read(10, 0) == b"" and file.whole(10) == b"0123456789"
    for offset, size, left in ((0, 11, 10), (8, 3, 2), (12, 1, 0), (-1, 2, 11), (0, -1, 10)):
        with pytest.raises(BadFileError, match=f"a: byte {offset}: {size} bytes declared, {left} are left"):
            file.read(offset, size)


def test_no_more_than_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made(tmp_path / "a", b"0123456789")
    with pytest.raises(BadFileError, match="10 bytes, at most 9 are read"):
        file.whole(9)
    monkeypatch.setattr(untrusted_files, "MAX_FILE_BYTES", 4)
    with pytest.raises(BadFileError, match="byte 1: 5 bytes declared, at most 4 are read"):
        file.read(1, 5)


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    file = made(tmp_path / "a", b"0123456789")
    os.truncate(tmp_path / "a", 4)
    with pytest.raises(BadFileError, match="byte 4: the file became shorter while it was read"):
        file.read(0, 10)


def test_lines_end_within_their_limit(tmp_path: Path) -> None:
    file = made(tmp_path / "a", b"one\ntwo\n" + b"x" * 20)
    assert (file.line(0), file.line(4), file.line(0, 3)) == (b"one", b"two", b"one")
    for offset, limit in ((0, 2), (8, 4096), (28, 5)):
        with pytest.raises(BadFileError, match=f"byte {offset}: a line that does not end within {limit} bytes"):
            file.line(offset, limit)


def test_names_that_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "dump", tmp_path / "secret"
    folder.mkdir()
    outside.write_bytes(b"secret")
    (folder / "in").write_bytes(b"in")
    (folder / "out").symlink_to(outside)
    (folder / "again").symlink_to("in")
    dump = UntrustedFolder(str(folder))
    assert dump.file("in").whole() == dump.file("again").whole() == b"in"
    for name in ("../secret", "out", str(outside), "x/../../secret"):
        with pytest.raises(BadFileError, match="leads out of the folder"):
            dump.file(name)
    with pytest.raises(BadFileError, match="not a file name"):
        dump.file("a\0b")


def test_what_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b" / "c" / "d").mkdir(parents=True)
    for name in ("a", "b/x", "b/c/y", "b/c/d/z", "n.0001.part.npy"):
        (tmp_path / name).touch()
    dump = UntrustedFolder(str(tmp_path))
    assert dump.names() == ["a", "n.0001.part.npy"] and dump.folders() == ["b"]
    assert dump.names(2) == ["a", "b/x", "n.0001.part.npy"]
    assert dump.names(9) == ["a", "b/c/y", "b/x", "n.0001.part.npy"]  # three levels at most
    (tmp_path / ".0001.part.npy").touch()  # left by a command that was killed
    assert ".0001.part.npy" not in dump.names()
    monkeypatch.setattr(untrusted_files, "MAX_FILES", 2)
    with pytest.raises(BadFileError, match="more than 2 files"):
        dump.names(3)
    with pytest.raises(BadFileError, match="No such file or directory"):
        UntrustedFolder(str(tmp_path / "none")).names()
