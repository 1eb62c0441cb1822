"""What is wrong with a page is said with its file; scripts/new_op writes files that say what is left to write."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from qverify import ops, pages
from qverify.compiler.lowerings import lowerings

from tests.ops.runtime_library import COMPILER

ROOT = Path(__file__).resolve().parents[2]


def written(monkeypatch: pytest.MonkeyPatch, package: str, stem: str, **names: Any) -> None:
    """Adds this page to a package, as if its file were there."""
    page = ModuleType(f"{package}.{stem}")
    vars(page).update(names)
    held = pages.page_names
    monkeypatch.setattr(pages, "page_names", lambda p: sorted({*held(p), *([stem] if p == package else [])}))
    monkeypatch.setitem(sys.modules, page.__name__, page)


def nothing(*_: Any) -> None:
    return None


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no op of this stem": ("helpers", {}, "helpers.py: no op has this stem"),
    "no types": ("unpack", {"match": nothing}, "unpack.py: no ONNX_TYPES"),
    "types without attributes": (
        "unpack",
        {"ONNX_TYPES": ("Unpack",), "match": nothing},
        "unpack.py: ONNX_TYPES is not a dict",
    ),
    "no way in": ("unpack", {"ONNX_TYPES": {"Unpack": {}}}, "unpack.py: none of match, "),
    "an operator alone": ("unpack", {"OPERATORS": {"QLinearUnpack": {}}}, "unpack.py: OPERATORS and from_operator"),
    "another page's type": (
        "unpack",
        {"ONNX_TYPES": {"Add": {}}, "match": nothing},
        "unpack.py: match of Add is already in .*add.py",
    ),
    "another row": (
        "unpack",
        {"ONNX_TYPES": {"Elu": {}}, "match": nothing},
        "unpack.py: reads other attributes of Elu",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_lowering_names_itself(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stem, names, said = WRONG[case]
    written(monkeypatch, "qverify.compiler.lowerings", stem, **names)
    with pytest.raises(ImportError, match=f"compiler/lowerings/{said}"):
        lowerings.__wrapped__()


def test_words_that_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    written(monkeypatch, "qverify.ops", "unpack", WORDS="axis", simulate=nothing)
    with pytest.raises(ImportError, match=r"ops/unpack\.py: WORDS"):
        ops._loaded.__wrapped__("unpack")


def new_op(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "new_op"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folders that new_op writes to, without Python pages and cases."""
    for name in ("scripts/new_op", "board_runtime/build.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("board_runtime/src", "board_runtime/include"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("verifier/qverify/ops", "verifier/qverify/compiler/lowerings", "tests/ops/cases"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_new_op_writes_five_files_and_registers_nothing_by_hand(copy: Path) -> None:
    done = new_op(copy, "bit_shift")
    assert done.returncode == 0, done.stderr
    made = sorted(p.relative_to(copy).as_posix() for p in copy.rglob("bit_shift.*"))
    assert made == [
        "board_runtime/src/ops/bit_shift.c",
        "tests/ops/cases/bit_shift.py",
        "verifier/qverify/compiler/lowerings/bit_shift.py",
        "verifier/qverify/ops/bit_shift.md",
        "verifier/qverify/ops/bit_shift.py",
    ]
    assert "  X(bit_shift) " in (copy / "board_runtime/src/ops/list.h").read_text()
    assert (copy / made[3]).read_text().startswith("# bit_shift\n\nSENTENCE.\n"), "test_documents.py refuses it so"
    for path in (*made[1:3], made[4]):
        text = (copy / path).read_text()
        exec(compile(text, path, "exec"), {})  # what it imports is there
        assert f'NotImplementedError("{path}: ' in text, "what is not written says so"
    assert '"BitShift": {}' in (copy / made[2]).read_text()
    assert f'"{made[0]} is not written yet"' in (copy / made[0]).read_text()


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
def test_its_kernel_compiles(copy: Path) -> None:
    new_op(copy, "bit_shift")
    runtime = copy / "board_runtime"
    command = [str(COMPILER), "-std=c99", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Isrc", "-c", "-o", "op.o"]
    done = subprocess.run([*command, "src/ops/bit_shift.c"], cwd=runtime, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [(), ("BitShift",), ("bit-shift",), ("a", "b", "c")])
def test_new_op_refuses_what_is_no_name(words: tuple[str, ...], copy: Path) -> None:
    done = new_op(copy, *words)
    assert done.returncode == 2 and "a lower-case name" in done.stdout


def test_new_op_overwrites_nothing(copy: Path) -> None:
    (copy / "tests/ops/cases/bit_shift.py").write_text("mine")
    done = new_op(copy, "bit_shift")
    assert done.returncode == 2 and "tests/ops/cases/bit_shift.py is there already" in done.stdout
    assert [p.name for p in copy.rglob("bit_shift.*")] == ["bit_shift.py"]
