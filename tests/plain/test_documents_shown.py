"""What the documents show is what the program does: commands, their output, diagrams, links, the site."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import onnxruntime
import pytest
from qverify.onnx_model.exact_products import inexact_kernels
from qverify.session.stated_arithmetics import list_shipped

from scripts.documents import arithmetics, diagrams, op_pages, operators, shown_output
from scripts.documents.blocks import ROOT, Block, blocks, commands, pages
from scripts.documents.command_lines import problem
from tests.test_layering import FLOORS

PAGES = pages()
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
LINKED = [
    *PAGES,
    *(p for tree in ("verifier", "agents", "board_runtime", "vectors") for p in sorted((ROOT / tree).glob("*.md"))),
    *sorted(op_pages.FOLDER.glob("*.md")),
]


def runs(path: Path) -> bool:
    return any(b.kind == "console" and not b.needs for b in blocks(path.read_text()))


@pytest.mark.parametrize("path", [p for p in PAGES if runs(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_output_shown_is_what_the_program_prints(path: Path) -> None:
    """scripts/docs_output mends it. Blocks that need a board are run by that script alone."""
    if "--runtime onnxruntime" in path.read_text() and inexact_kernels():
        pytest.skip("onnxruntime is a faulty board on this processor: its products of uint8 by int8 saturate")
    assert shown_output.page_with_output(path)[1] == []


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_command_shown_is_one_that_the_program_takes(path: Path) -> None:
    lines = [line for b in blocks(path.read_text()) if b.kind in ("console", "sh") for line in commands(b)]
    assert [found for line in lines if (found := problem(line))] == []


@pytest.mark.parametrize(
    "line",
    [
        "qverify -m a.onnx --no-such-option",
        "qverify compare",
        "qverify boards fly",
        "qverify -m a.onnx -c many",
        "scripts/nothing",
        "cd x && qverify compile",
    ],
)
def test_a_command_that_is_wrong_is_noticed(line: str) -> None:
    assert problem(line)


def test_an_output_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    shown = Block("console", 1, 4, ("$ echo one; exit_status() { return 3; }; exit_status", "two", "$ echo $?", "0"))
    assert shown_output.run(shown, tmp_path, {}, {}) == [shown.lines[0], "one", "$ echo $?", "3"]
    page = ROOT / "docs" / "how-to" / "no-network.md"
    text = page.read_text()
    changed = tmp_path / "page.md"
    changed.write_text(text.replace("8 nodes", "9 nodes"))
    mended, differences = shown_output.page_with_output(changed)
    assert len(differences) == 1 and "9 nodes" in differences[0]
    assert shown_output.compared(mended.split("\n")) == shown_output.compared(text.split("\n"))


@pytest.mark.parametrize("path", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_diagrams_are_as_they_would_be_drawn_today() -> None:
    """scripts/docs_output draws them anew: from the floors of tests/test_layering.py, among others."""
    for path, text in diagrams.every().items():
        assert path.read_text() == text, path.name


def test_the_table_of_operators_is_what_the_compiler_has() -> None:
    """scripts/docs_output writes it anew. The operators that onnxruntime runs differ between its versions."""
    page = operators.PATH.read_text()
    if any(f"{m.__name__} {m.__version__}" not in page for m in (onnx, onnxruntime)):
        pytest.skip("written with other versions of onnx and onnxruntime")
    assert page == operators.page()


def test_the_pages_of_arithmetics_are_those_of_the_shipped_files() -> None:
    """scripts/docs_output writes them anew."""
    written = arithmetics.every()
    assert {p: p.read_text() for p in arithmetics.FOLDER.glob("*.md")} == written
    assert len(written) == 1 + len(list_shipped())


def test_the_pages_of_ops_and_their_index_state_what_the_code_knows() -> None:
    """scripts/docs_output writes it anew: ONNX operators, files of vectors, the index."""
    assert [path.name for path, text in op_pages.every().items() if path.read_text() != text] == []


def test_the_architecture_names_every_room() -> None:
    table = re.findall(r"^\| (`.*?) \| ", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    assert {room for rooms in FLOORS["qverify"] for room in rooms} == named


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="MkDocs is not installed: scripts/setup docs")
def test_the_site_builds_and_loads_nothing_from_another_host(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = sorted((tmp_path / "site").rglob("*.html"))
    assert len(made) > 30
    loads = r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*\bhref=[\"']?(?:https?:)?//"
    assert [page.name for page in made if re.search(loads, page.read_text())] == []
    command_line = (tmp_path / "site" / "reference" / "cli.html").read_text()
    assert "qverify inputs diff" in command_line and "--reference-spread" in command_line
    assert "TensorRow" in (tmp_path / "site" / "reference" / "json.html").read_text()
