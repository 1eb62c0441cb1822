"""Runs the commands that a page shows, and reports or corrects shown output that has changed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.documents.blocks import ROOT, Block, blocks, commands
from scripts.documents.boards import board

EXAMPLE = ROOT / "verifier" / "qverify" / "example"
MARK = "\x01"
TIMEOUT_S = 300
VARYING = (  # patterns of text that differs between runs or machines, and what replaces it before comparing
    (r"\b\d+(\.\d+)? (s|ms|us)\b", "TIME"),
    (r"^qverify \d[\w.]*;", "qverify VERSION;"),
    (r"^(note: )?spot check: .*$", "SPOT CHECK"),
    (r" \(\d+ of them by digest\)", " (N of them by digest)"),
    (r"^link: bytes sent .*$", "LINK"),  # the spot check pulls a different tensor in each run
    (r"^(original ONNX on default onnxruntime, [^:]*): .*$", r"\1"),  # depends on the processor
    (r"\bonnxruntime \d[\w.]*", "onnxruntime VERSION"),
    (r"\b\d+(\.\d+)? ?(B|kB|MB|MiB)\b", "SIZE"),
    (r"\b\d{5,} bytes\b", "SIZE"),
    (r"Linux \d\S*", "Linux VERSION"),
    (r"/usr/\S*qemu-\S+", "EMULATOR"),
    (r" {2,}|-{3,}", " "),  # column widths depend on their contents
)


def page_with_output(path: Path, needs: frozenset[str] = frozenset()) -> tuple[str, list[str]]:
    """Runs the page's commands. Returns its text with current output, and a line for each block whose output differed.

    needs: the kinds of boards that may be started; blocks that need another kind are left unchanged."""
    text = path.read_text()
    lines, differences = text.split("\n"), []
    mended = {}
    with tempfile.TemporaryDirectory(prefix="qverify-docs-") as folder, contextlib.ExitStack() as open_boards:
        work = Path(folder).resolve()
        for file in EXAMPLE.glob("digits*"):
            shutil.copy(file, work)
        places: dict[str, tuple[dict[str, str], dict[str, str]]] = {"": ({}, {})}
        for block in blocks(text):
            if block.needs and block.needs not in needs:
                continue
            if block.needs not in places:
                places[block.needs] = open_boards.enter_context(board(block.needs))
            environment, stands_for = places[block.needs]
            if block.title:
                (work / block.title).write_text(_put("\n".join(block.lines) + "\n", stands_for))
            elif block.kind == "console":
                shown = run(block, work, environment, stands_for)
                if compared(shown) != compared(block.lines):
                    differences.append(
                        f"{os.path.relpath(path, ROOT)}:{block.first}: {first_difference(block.lines, shown)}"
                    )
                    mended[block] = shown
    for block, shown in reversed(mended.items()):
        lines[block.first : block.last] = shown
    return "\n".join(lines), differences


def run(block: Block, work: Path, environment: dict[str, str], stands_for: dict[str, str]) -> list[str]:
    """Runs the block's commands and returns its lines: each command, then its output (both streams, in order).

    stands_for: text that the page shows to the real text in this run."""
    words = commands(block)
    script = "".join(f"(exit $qv_status)\n{_put(word, stands_for)}\nqv_status=$?; echo '{MARK}'\n" for word in words)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("QVERIFY_", "PYTEST", "COLUMNS"))
    }
    fixed = {"PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}", "HOME": str(work), "COLUMNS": "120", "TERM": "dumb"}
    fixed |= {"QVERIFY_CLOCK": "2026-01-31T12:00:00Z"}
    done = subprocess.run(
        ["bash", "-c", "qv_status=0\n" + script],
        cwd=work,
        env=inherited | fixed | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        check=False,
    )
    printed = done.stdout.decode(errors="replace")
    for shown, real in (stands_for | {"/home/you/try": str(work)}).items():
        printed = printed.replace(real, shown)
    parts = printed.split(f"{MARK}\n")
    lines: list[str] = []
    for word, part in zip(words, parts, strict=False):
        lines += f"$ {word}".split("\n")
        lines += [line.rstrip() for line in part.rstrip("\n").split("\n")] if part.strip() else []
    return lines


def compared(lines: tuple[str, ...] | list[str]) -> list[str]:
    """Returns the lines with the parts that differ between runs or machines replaced."""
    result = []
    for line in lines:
        for pattern, replacement in VARYING:
            line = re.sub(pattern, replacement, line)
        result.append(line.strip())
    return result


def first_difference(shown: tuple[str, ...] | list[str], printed: list[str]) -> str:
    """Returns a description of the first difference between the shown and the printed lines, on one line."""
    for a, b, x, y in zip(compared(shown), compared(printed), shown, printed, strict=False):
        if a != b:
            return f"shown: {x!r}, printed: {y!r}"
    return f"{len(shown)} lines shown, {len(printed)} printed, the last {printed[-1]!r}"


def _put(text: str, stands_for: dict[str, str]) -> str:
    """Returns the text with shown text replaced by the real text."""
    for shown, real in stands_for.items():
        text = text.replace(shown, real)
    return text


def needed(path: Path) -> Iterator[str]:
    """Yields the kinds of boards that a page's console blocks need, "" for blocks that need none."""
    yield from {b.needs for b in blocks(path.read_text()) if b.kind == "console"}
