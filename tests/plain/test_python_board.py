"""The initramfs of an emulated board with Python: the image's own archive, and the root folder's after it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from qverify_agents.emulation.archive import FILE, ArchiveEntry, encode_newc
from qverify_agents.emulation.image import KINDS, Image
from qverify_agents.emulation.python_board import add_python
from qverify_agents.emulation.python_root import PACKAGES
from qverify_agents.errors import BoardUnreachable


@pytest.fixture
def image(tmp_path: Path) -> Image:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "packages.json").write_text("{}")
    (folder / "initrd.gz").write_bytes(gzip.compress(encode_newc({"init": ArchiveEntry(FILE, 0o755, b"#!/bin/sh\n")})))
    return Image(folder, KINDS["arm64"], "arm64")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, text in (
        ("usr/bin/python3.11", "python"),
        (f"{PACKAGES}/onnxruntime/__init__.py", "ort"),
        (f"{PACKAGES}/numpy/tests/large.py", "left out"),
        ("lib/aarch64-linux-gnu/libc.so.6", "libc"),
        ("proc/cpuinfo", "left out"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "usr/bin/python3").symlink_to("python3.11")
    return root


def names(archive: bytes) -> dict[str, bytes]:
    """Returns names and contents of a newc archive."""
    found, at = {}, 0
    while archive[at : at + 6] == b"070701":
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        size, length = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        start = at + 110 + length + (-(110 + length) % 4)
        if name == "TRAILER!!!":
            break
        found[name] = archive[start : start + size]
        at = start + size + (-size % 4)
    return found


def test_it_follows_the_images_own_archive_and_is_built_once(image: Image, root: Path) -> None:
    built = add_python(image, "onnxruntime", ["onnxruntime"], str(root))
    file, own = image.folder / built.initrd, (image.folder / "initrd.gz").read_bytes()
    data = file.read_bytes()
    start = len(own) + -len(own) % 4
    assert data.startswith(own) and not data[len(own) : start].strip(b"\0")
    held = names(data[start:])
    assert held["usr/bin/python3"] == b"python3.11" and held["usr/bin/python3.11"] == b"python"
    assert held["usr/lib/aarch64-linux-gnu/libc.so.6"] == b"libc" and held["lib"] == b"usr/lib"
    assert not any("tests" in n or "cpuinfo" in n for n in held)
    before = file.stat().st_mtime_ns
    assert add_python(image, "onnxruntime", ["onnxruntime"], str(root)) == built and file.stat().st_mtime_ns == before
    assert image.initrd == "initrd.gz"


def test_a_folder_without_the_library_is_one_line(image: Image, root: Path, monkeypatch, tmp_path: Path) -> None:
    with pytest.raises(
        BoardUnreachable, match=r"no Python with litert for it in .*root\. Next: scripts/arm_reference DIR --litert"
    ):
        add_python(image, "litert", ["ai_edge_litert"], str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(BoardUnreachable, match="no Python with onnxruntime for it in the cache"):
        add_python(image, "onnxruntime", ["onnxruntime"])
