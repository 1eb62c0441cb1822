"""One op, one stem: its page, its lowering, its kernel and its cases have one file each, of the same name; none is left out."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from qverify.compiler.lowerings import lowerings
from qverify.compiler.preprocessing import OPS as BEFORE_THE_NETWORK
from qverify.ops import MOVES, page, stems
from qverify.pages import page_names

from scripts.documents.op_pages import read_page
from tests.ops.case_files import CASES, FILES, RANDOM_NODES
from tests.ops.random_nodes import RandomNodes

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "board_runtime" / "build.py"
build: Any = ModuleType("board_runtime_build")
build.__file__ = str(BUILD)
exec(compile(BUILD.read_text(), BUILD, "exec"), vars(build))

LOWERED = page_names("qverify.compiler.lowerings")


def test_both_languages_and_numerics_agree_which_ops_only_move_elements() -> None:
    kernels = re.search(r"MOVES\[\] = \{(.*?)\}", (ROOT / "board_runtime/src/ops/op.c").read_text(), re.DOTALL)
    contract = re.search(r"only move elements \((.*?)\)", " ".join((ROOT / "verifier/NUMERICS.md").read_text().split()))
    assert kernels and contract
    assert re.findall(r'"(\w+)"', kernels[1]) == contract[1].split(", ") == sorted(MOVES)
    assert {*stems()} >= MOVES


@pytest.mark.parametrize("stem", stems())
def test_it_has_a_page_and_a_kernel(stem: str) -> None:
    assert page(stem).WORDS is not None
    kernel = f"board_runtime/src/ops/{stem}.c"
    assert (ROOT / kernel).is_file(), f"write {kernel}"
    assert f"  X({stem})" in build.op_list(), f"{kernel}: no `const qv_op qv_op_{stem}`"


@pytest.mark.parametrize("stem", stems())
def test_it_has_a_lowering_or_stands_before_the_network(stem: str) -> None:
    lowering = f"verifier/qverify/compiler/lowerings/{stem}.py"
    assert (stem in LOWERED) != (stem in BEFORE_THE_NETWORK), (
        f"write {lowering}, or make it in compiler/preprocessing.py"
    )


@pytest.mark.parametrize("stem", stems())
def test_it_has_a_reference_case(stem: str) -> None:
    """What onnxruntime has no operator for has no reference, and says so."""
    wanted = f"write tests/ops/cases/{stem}.py with a function marked @reference: a small model in which {stem} appears"
    assert stem in FILES, wanted
    if stem in BEFORE_THE_NETWORK:
        assert getattr(FILES[stem], "NO_REFERENCE", ""), f"tests/ops/cases/{stem}.py: no NO_REFERENCE = why"
    else:
        assert any(op == stem for _, op, _ in CASES.values()), wanted


@pytest.mark.parametrize("stem", stems())
def test_it_has_random_nodes(stem: str) -> None:
    wanted = (
        f"write random_nodes(r) in tests/ops/cases/{stem}.py: it adds {stem} nodes with random words, shapes and values"
    )
    assert stem in RANDOM_NODES, wanted
    made = RandomNodes("ref-exact", 0)
    RANDOM_NODES[stem](made)
    assert {n.op for n in made.nodes} == {stem}, wanted
    said = read_page(stem)
    assert all(said.takes(len(n.inputs), len(n.outputs)) for n in made.nodes), f"{stem}.md: the line of ## Operands"
    absent = {name for n in made.nodes for name, given in zip(said.inputs, n.inputs, strict=False) if given is None}
    assert all(name[-1] in "?-" for name in absent), f"{stem}.md: `?` behind an operand that may be absent"


def test_no_file_stands_for_another_stem() -> None:
    lowerings()  # refuses a lowering without a page
    kernels = [line.strip()[2:].rstrip(" \\").rstrip(")") for line in build.op_list().splitlines() if "  X(" in line]
    assert set(FILES) == set(stems()) == set(kernels)


def test_the_list_of_kernels_is_current() -> None:
    assert (build.OPS / "list.h").read_text() == build.op_list(), "run python board_runtime/build.py"
