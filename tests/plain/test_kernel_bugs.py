"""The kernel bugs of `scripts/bench kernels`: every file can be read, is one of its kind, and still fits the source."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from benchmarks.kernel_bugs_archive import ARCHIVE, pack, read_files, unpack  # noqa: E402
from benchmarks.kernel_bugs_built import FLAGS, RUNTIME, DoesNotApply, KernelBug, edited, list_bugs  # noqa: E402

ALL = list_bugs()


def test_there_are_enough_of_them_and_each_has_a_name_and_a_truth_of_its_own():
    assert len(ALL) >= 300 and len({b.name for b in ALL}) == len(ALL)
    assert all(b.truth.endswith(".") and len(b.truth) > 30 for b in ALL)
    assert len({tuple(sorted(b.edits)) for b in ALL}) == len(ALL)


@pytest.mark.parametrize("name", ["seen", "unseen", "near_misses", "second", "third", "fourth", "fifth"])
def test_every_bug_still_fits_the_source(name: str):
    bugs = list_bugs(only_set=name)
    assert len(bugs) >= 60
    for bug in bugs:
        for path, text in edited(bug, RUNTIME / "src"):
            assert text != (RUNTIME / "src" / path).read_text(), bug.name


def test_an_unpacked_archive_packs_into_the_same_files(tmp_path: Path):
    unpack(tmp_path / "bugs")
    pack(tmp_path / "bugs", tmp_path / "again.tar.xz")
    assert read_files(tmp_path / "again.tar.xz") == read_files(ARCHIVE)
    assert list_bugs(tmp_path / "bugs") == ALL


def test_the_kernels_that_bugs_edit_are_those_that_run():
    """Not the blocked products of newer processors, which have code of their own."""
    assert "-DQV_WITHOUT_PRODUCTS" in FLAGS
    choice = (RUNTIME / "src" / "arithmetic" / "instructions.c").read_text()
    assert "#ifdef QV_WITHOUT_PRODUCTS" in choice and not any("instructions" in f for b in ALL for f in b.files)


def test_a_text_that_is_not_there_once_is_refused(tmp_path: Path):
    (tmp_path / "a.c").write_text("x x y")
    with pytest.raises(DoesNotApply, match="2 times, wanted once"):
        list(edited(KernelBug("b", "t", (("a.c", "x", "z"),)), tmp_path))
    assert list(edited(KernelBug("b", "t", (("a.c", "y", "z"), ("a.c", "z", "w"))), tmp_path)) == [
        (Path("a.c"), "x x w")
    ]
