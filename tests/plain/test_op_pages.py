"""How pages of ops are read and completed, and how long lines are wrapped: no word changes, and nothing is left out silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.documents import op_pages, wrapped

PAGE = """# add

Sum of {0}tensors. More.

## Formula

    y = a + b

## Operands

    a b? rest -> y

## Words

- `swap`: 1 exchanges them.
- `act_min` `act_max`: limits, `swap` or not.

## In ONNX

<!-- onnx: written by scripts/docs_output -->
<!-- end -->
"""


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "add.md").write_text(text)
    monkeypatch.setattr(op_pages, "FOLDER", tmp_path)
    monkeypatch.setattr(op_pages, "ROOT", tmp_path)
    monkeypatch.setattr(op_pages, "stems", lambda: ("add",))


def test_what_a_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, PAGE.format("two\n"))
    said = op_pages.read_page("add")
    assert said.summary == "Sum of two tensors."
    assert (said.inputs, said.outputs) == (("a", "b?", "rest"), ("y",))
    assert said.words == ("swap", "act_min", "act_max")
    assert said.parts == ("Formula", "Operands", "Words", "In ONNX")


@pytest.mark.parametrize(
    ("operands", "numbers", "taken"),
    [
        ("a b? -> y", (2, 1), True),
        ("a b? -> y", (1, 1), True),
        ("a b? -> y", (0, 1), False),
        ("a b? -> y", (3, 1), False),
        ("a b? -> y", (2, 2), False),
        ("x0 x1 ... -> y", (7, 1), True),
        ("x0 x1 ... -> y", (0, 1), False),
    ],
)
def test_how_many_operands_it_takes(
    operands: str, numbers: tuple[int, int], taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, monkeypatch, PAGE.format("").replace("a b? rest -> y", operands))
    assert op_pages.read_page("add").takes(*numbers) is taken


def test_a_page_without_operands_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, PAGE.format("").replace("    a b? rest -> y", "a, b and rest"))
    with pytest.raises(ValueError, match=r"^add\.md: wanted"):
        op_pages.read_page("add")


def test_a_page_that_lacks_a_generated_part_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "add.md"
    text = PAGE.format("")
    monkeypatch.setattr(op_pages, "ROOT", tmp_path)
    made = op_pages._with_block(text, path, "onnx", "Add, Sub")
    assert "docs_output -->\n\nAdd, Sub\n\n<!-- end -->" in made
    assert op_pages._with_block(made, path, "onnx", "Add, Sub") == made
    with pytest.raises(ValueError, match=r"^add\.md lacks the lines <!-- vectors"):
        op_pages._with_block(text, path, "vectors", "- `vectors/tflm.json`: `add`")
    with pytest.raises(ValueError, match=r"^add\.md has, with nothing to write there, the lines <!-- onnx"):
        op_pages._with_block(text, path, "onnx", None)


LONG = " ".join(["word"] * 40)


def test_wrapping_keeps_every_word_and_begins_a_line_for_each_sentence() -> None:
    text = f"One. Then {LONG}. `a code span with spaces` Two, {LONG}\n- item. Some {LONG}\n"
    made = wrapped.wrap(text)
    assert made.split() == text.split()
    assert made.split("\n")[0] == "One."
    assert "\n- item.\n  Some word" in made
    assert not wrapped.long_lines(made) and wrapped.wrap(made) == made


@pytest.mark.parametrize("sign", ["-", "+", "*", "#", ">", "|", "=", "1.", "12)"])
def test_no_wrapped_line_begins_a_list_a_heading_or_a_table(sign: str) -> None:
    made = wrapped.wrap(" ".join(["word word", sign] * 40))
    assert len(made.split("\n")) > 2
    assert not any(line.startswith(f"{sign} ") for line in made.split("\n"))


@pytest.mark.parametrize("line", ["    code " + LONG, "| cell " + LONG + " |", "# heading " + LONG])
def test_code_tables_and_headings_stay(line: str) -> None:
    for text in (line, f"```\n{LONG}\n```\n{line}"):
        assert wrapped.wrap(text) == text and not wrapped.long_lines(text)


def test_what_stays_on_one_line() -> None:
    for atom in ("`a b c`", "[the text of a link](file.md)", "**bold text**"):
        made = wrapped.wrap(" ".join([atom] * 60))
        assert all(line.count(atom) * (len(atom) + 1) == len(line) + 1 for line in made.split("\n"))
