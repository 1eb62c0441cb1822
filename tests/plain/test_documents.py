"""The normative documents and the code say the same: ops and their words, rounding modes, exit statuses, commands, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from qverify import __version__, profiles
from qverify.cli.main import COMMANDS, main
from qverify.model_bin.graph import ROUNDINGS
from qverify.ops import page, stems
from qverify.pages import page_names
from qverify_agents.option_values import VALUES
from qverify_agents.schemes import BOARDS

from scripts.documents import wrapped
from scripts.documents.op_pages import FOLDER, PARTS, read_page

ROOT = Path(__file__).resolve().parents[2]
FORMAT = (ROOT / "board_runtime" / "FORMAT.md").read_text()


@pytest.mark.parametrize("stem", stems())
def test_every_op_has_its_page_with_its_words(stem: str) -> None:
    said = read_page(stem)
    assert said.words == tuple(page(stem).WORDS), f"{stem}.md: write each of them, `- `NAME`: meaning`, below ## Words"
    assert "Formula" in said.parts and said.summary != "SENTENCE.", f"{stem}.md: write it"
    assert list(said.parts) == [part for part in PARTS if part in said.parts], "each part once, in this order"
    assert (ROOT / "board_runtime" / "src" / "ops" / f"{stem}.c").is_file()


def test_no_page_without_its_op() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted(stems())


def test_rounding_ids() -> None:
    sentence = re.search(r"^Rounding ids: ([^.]+)\.", FORMAT, re.MULTILINE)
    assert sentence and re.findall(r"(\d+) ([a-z0-9-]+)", sentence[1]) == [
        (str(i), name) for i, name in enumerate(ROUNDINGS)
    ]


def test_documents_name_every_command_and_board() -> None:
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    agents = (ROOT / "agents" / "README.md").read_text()
    for name in COMMANDS:
        assert f"qverify {name}" in pages, name
    for scheme in BOARDS:
        assert f"`{scheme}" in agents, scheme


def test_every_profile_is_documented_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    table = (ROOT / "verifier" / "PROFILES.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(rows) == profiles.names()
    assert main(["compare", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name}  ", shown, re.MULTILINE) for name in rows)


def test_every_report_format_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "formats.md").read_text()
    rows = re.findall(r"^\| `--(?:report )?([\w-]+)[ =]FILE` \|", text, re.MULTILINE)
    assert sorted({*rows} - {"npz"}) == sorted(
        name.replace("_", "-") for name in page_names("qverify.renderers.formats")
    )


DOCUMENTS = [p for p in sorted(ROOT.rglob("*.md")) if not {".cache", ".venv", "node_modules"} & set(p.parts)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_named_in_documents_exist(path: Path) -> None:
    """Paths in backticks that start with a folder of the project."""
    for name in re.findall(r"`((?:verifier|agents|board_runtime|tests|scripts)/[\w./-]*)`", path.read_text()):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


@pytest.mark.parametrize("path", wrapped.documents(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_normative_documents_have_short_lines(path: Path) -> None:
    """Outside tables and code. scripts/docs_output CONTRIBUTING.md wraps what is longer."""
    assert [number + 1 for number in wrapped.long_lines(path.read_text())] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_products_are_shown_as_products(path: Path) -> None:
    """In text, Markdown takes the asterisks of a*b ... c*d for emphasis and drops them: a * b stays."""
    fences = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in fences.splitlines() if not line.startswith("    ")]
    text = re.sub(r"`[^`\n]*`|\*\*[^*\s][^*\n]*\*\*|(?<!\S)\*\w[^*\n]*\*", "", "\n".join(lines))
    assert re.findall(r".{0,30}[\w)\]]\*[\w(\[.].{0,30}", text) == []


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.+)"$'),
        ("board_runtime/src/main.c", r'"qvrt ([0-9.]+)\\n'),
        ("board_runtime/src/agent/serve.c", r'\\"version\\": \\"([0-9.]+)\\"'),
    ],
)
def test_one_version(file: str, pattern: str) -> None:
    assert re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE) == [__version__]


@pytest.mark.parametrize("option", VALUES)
def test_every_option_of_an_address_is_explained(option: str) -> None:
    assert re.search(rf"[`?]{option}=", (ROOT / "agents" / "README.md").read_text())
