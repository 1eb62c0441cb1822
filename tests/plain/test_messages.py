"""Every message in the sources keeps the rules of verifier/MESSAGES.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = ("verifier/qverify", "agents", "farm/qverify_farm")
RULES = (ROOT / "verifier" / "MESSAGES.md").read_text()
OF_USERS = re.compile(
    r"(Usage|BadFile|Unsupported|RefusedModel|Task|Board|Link|MissingExtra|Undescribed|Blocked|OwnInputs|Artifact)Error"
    r"|BadAddress|BoardUnreachable|BoardBusy|NotOnThisHost|NotOnHostError"
)
FORBIDDEN = re.compile(r"\b(please|sorry|illegal|failed to|unable to|oops|expected|supposed to)\b|!(?=\s|$)", re.I)
RESULTS = ("verifier/qverify/renderers", "farm/qverify_farm/suites")
NAMES = re.compile(
    r"[A-Z][A-Z0-9]*([_=./:*-]|$)|[A-Z][a-z]+[A-Z]|SSH |QEMU|ONNX|LiteRT|ESP-DL|Python|POSIX|Missing option"
)


def text_of(node: ast.expr) -> str:
    """Returns the text of an expression, with {} for what is not constant."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(v) if isinstance(v, ast.Constant) else "{}" for v in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case _:
            return "{}"


def messages() -> Iterator[tuple[str, str]]:
    """Yields the place and the text of each error for users."""
    for path in sorted(p for tree in TREES for p in (ROOT / tree).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Raise(exc=ast.Call(func=ast.Name(id=name), args=[first, *_])) if OF_USERS.fullmatch(name):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text_of(first)


MESSAGES = [(place, text) for place, text in messages() if text.strip("{} :;,.")]


def test_there_are_as_many_as_the_rules_are_for():
    assert len(MESSAGES) > 1000


@pytest.mark.parametrize(
    ("rule", "breaks"),
    [
        ("one line", lambda text: "\n" in text),
        ("no final full stop", lambda text: re.search(r"[^.\s]\.\s*$", text)),
        ("begins with a small letter or a name", lambda text: text[0].isupper() and not NAMES.match(text)),
        ("no forbidden word", FORBIDDEN.search),
        (
            "one form of the step",
            lambda text: re.search(r"(?<!\. )(?<!\{\} )Next: |\bnext: |[Hh]int: |\btry (to|it|again)\b", text),
        ),
        ("no spaces at its ends", lambda text: text != text.strip()),
    ],
)
def test_messages_keep_the_rules(rule, breaks):
    assert [f"{place}: {text}" for place, text in MESSAGES if breaks(text)] == [], rule


def test_a_rule_finds_what_breaks_it():
    assert (
        FORBIDDEN.search("x: invalid, please repair") and FORBIDDEN.search("stop!") and not FORBIDDEN.search("a != b")
    )
    assert not NAMES.match("Got a thing") and NAMES.match("QVERIFY_BOARDS=x: no such file")


def test_words_in_capitals_are_those_of_the_rules():
    known = {w for cells in re.findall(r"^\| ([A-Z ]+) \|", RULES, re.M) for w in cells.split()}
    assert {"PASSED", "FAILED", "INCONCLUSIVE"} <= known
    shown = set()
    for path in (p for folder in RESULTS for p in (ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text())
        documented = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                words = re.findall(r"(?<![\w<!-])[A-Z]{5,}(?![\w-])", node.value)
                shown |= {(path.name, w) for w in words if not node.value.isupper()}
    assert {(file, word) for file, word in shown if word not in known} == set()
