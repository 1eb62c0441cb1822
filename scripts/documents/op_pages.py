"""Writes what the code knows about ops into their pages, `verifier/qverify/ops/NAME.md`: the ONNX operators that become
the op and the files of vectors that hold it. Writes the index of the pages into verifier/NUMERICS.md, section 2."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from qverify.compiler.lowerings import elementwise_integer, reduce_float
from qverify.ops import page, stems

from scripts.documents import operators
from scripts.documents.blocks import ROOT

NUMERICS = ROOT / "verifier" / "NUMERICS.md"
FOLDER = ROOT / "verifier" / "qverify" / "ops"
PARTS = (  # of a page, in this order, each only where there is something to say
    "Formula",
    "Operands",
    "Words",
    "Types and ranges",
    "Roundings",
    "Special values",
    "In ONNX",
    "Measured",
    "Vectors",
)
PASSED_ON = {  # types that another lowering takes and passes on where they are on integers, or on floats
    "elementwise_integer": elementwise_integer.OF_FLOATS_TOO,
    "reduce_float": reduce_float.OF_INTEGERS_TOO,
}
BLOCK = "<!-- {}: written by scripts/docs_output -->\n"
END = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class OpText:
    """The parts of an op's page that are checked.

    Attributes:
        summary: its first sentence.
        parts: the headings, in order.
        inputs: names of the operands, `?` behind one that may be absent, `-` for one that always is; the last is `...`
            if there may be more.
        outputs: likewise.
        words: names of the node's words.
    """

    summary: str
    parts: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    words: tuple[str, ...]

    def takes(self, inputs: int, outputs: int) -> bool:
        """Returns whether a node may have so many operands; the last ones may be left out where they may be absent."""
        for names, number in ((self.inputs, inputs), (self.outputs, outputs)):
            left_out = names[number:]
            if names[-1] == "...":
                if number < 1:
                    return False
            elif number > len(names) or not all(name.endswith("?") for name in left_out):
                return False
        return True


def every() -> dict[Path, str]:
    """Returns the current text of NUMERICS.md and of every op's page, by path. Raises ValueError for a page that lacks
    a part."""
    compiled, held = _compiled(), _held()
    texts = {}
    for stem in stems():
        path = FOLDER / f"{stem}.md"
        text = path.read_text()
        texts[path] = _with_block(_with_block(text, path, "onnx", compiled.get(stem)), path, "vectors", held.get(stem))
    texts[NUMERICS] = _with_block(NUMERICS.read_text(), NUMERICS, "ops", index())
    return texts


def read_page(stem: str) -> OpText:
    """Returns what an op's page says. Raises ValueError for a page without a summary or operands."""
    text = (FOLDER / f"{stem}.md").read_text()
    top = re.match(rf"# {stem}\n\n(.+?\.)(?=\s)", text, re.DOTALL)
    operands = re.search(r"^## Operands\n\n    (.+?) -> (.+)$", text, re.MULTILINE)
    if top is None or operands is None:
        raise ValueError(
            f"{stem}.md: wanted '# {stem}', a sentence, and '## Operands' with a line of inputs -> outputs"
        )
    words = re.search(r"^## Words\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    explained = re.findall(r"^- ((?:`[^`]+` ?)+):", words[1], re.MULTILINE) if words else []
    return OpText(
        summary=" ".join(top[1].split()),
        parts=tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)),
        inputs=tuple(operands[1].split()),
        outputs=tuple(operands[2].split()),
        words=tuple(name for row in explained for name in re.findall(r"`([^`]+)`", row)),
    )


def index() -> str:
    """Returns the table of all ops."""
    rows = ["| op | inputs -> outputs | words | |", "|---|---|---|---|"]
    for stem in stems():
        said = read_page(stem)
        operands = f"{' '.join(said.inputs)} -> {' '.join(said.outputs)}"
        words = " ".join(page(stem).WORDS)
        rows.append(f"| [{stem}](qverify/ops/{stem}.md) | {operands} | {words} | {said.summary} |")
    return "\n".join(rows)


def _compiled() -> dict[str, str]:
    """Returns the sentence on the ONNX operators that become an op, by stem: those of its lowering, and those that another
    one passes on by their type."""
    found = {stem: set(kinds) for stem, kinds in PASSED_ON.items()}
    for kind, ops in operators.ops().items():
        for stem in ", ".join(ops).split(", "):
            found.setdefault(stem, set()).add(kind)
    said = "ONNX operators of its lowering: {}. Lowerings of other ops may write it, too."
    return {stem: _wrapped(said.format(", ".join(sorted(kinds)))) for stem, kinds in found.items()}


def _held() -> dict[str, str]:
    """Returns the list of the files of vectors that hold an op, by stem."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "vectors").glob("*.json")):
        names: dict[str, list[str]] = {}
        for name in json.loads(path.read_text())["ops"]:
            names.setdefault(name.partition(",")[0], []).append(f"`{name}`")
        for stem, kinds in names.items():
            found.setdefault(stem, []).append(f"- `vectors/{path.name}`: {', '.join(kinds)}")
    head = "Held by these files of [vectors](../../../vectors/README.md), under these names:\n\n"
    return {stem: head + "\n".join(rows) for stem, rows in found.items()}


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False))


def _with_block(text: str, path: Path, name: str, new: str | None) -> str:
    """Returns the text with its generated block replaced. Raises ValueError if it lacks the block, or has one where there
    is nothing to write."""
    begin = BLOCK.format(name)
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(END)
    if bool(found and ended) != (new is not None):
        wanted = "lacks the lines" if new is not None else "has, with nothing to write there, the lines"
        raise ValueError(f"{path.relative_to(ROOT)} {wanted} {begin.strip()} and {END}")
    return text if new is None else f"{before}{begin}\n{new}\n\n{END}{after}"
