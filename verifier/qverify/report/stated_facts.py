"""Facts that a user states about a run (--fact, tags of boards.toml, labels of a suite), and names of those that a report
has of itself. The matrix of many runs takes both as rows and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

OWN = {  # facts that a report has of itself, with what each is
    "model": "name of the model's file",
    "model_sha256": "the first digits of its hash",
    "inputs": "names of the input files, or the seed of random ones",
    "inputs_sha256": "the first digits of their hash",
    "board": "name in boards.toml, or address",
    "runtime": "what ran on the board, with its version",
    "arithmetic": "how the simulator rounded",
    "qverify": "version",
    "onnxruntime": "version of the reference",
    "host": "kind of processor of the host",
    "system": "operating system of the board",
    "arch": "processor of the board",
    "date": "of the verdict",
}
USUAL = ("firmware", "toolchain")  # that no report has of itself
MAX_FACTS, MAX_KEY, MAX_VALUE = 32, 64, 200
_KEY = re.compile(rf"[A-Za-z][A-Za-z0-9_.-]{{0,{MAX_KEY - 1}}}")


def check_fact(key: Any, value: Any) -> str:
    """Returns what is wrong with a stated fact, in words, or ""."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return f"wanted a name of letters, digits, _ . and -, at most {MAX_KEY}, before the ="
    if key in OWN or key == "verdict":
        return f"{key} is what the run itself shows; wanted another name, such as firmware or toolchain"
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_VALUE or not value.isprintable():
        return f"wanted a value of 1 to {MAX_VALUE} characters, none of them a line end"
    return ""


def parse_facts(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns the facts in texts KEY=VALUE. Raises ValueError, which names the text, for anything else, a key that is given
    twice, and too many."""
    facts: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if wrong := check_fact(key, value):
            raise ValueError(f"{text[:80]}: {wrong}, as firmware=1.2")
        if key in facts:
            raise ValueError(f"{key} is given twice")
        facts[key] = value.strip()
    if len(facts) > MAX_FACTS:
        raise ValueError(f"{len(facts)} facts; wanted at most {MAX_FACTS}")
    return tuple(facts.items())


def usable_facts(values: Mapping[Any, Any]) -> tuple[tuple[str, str], ...]:
    """Returns those of untrusted or older values (tags, labels) that can be facts; the others are left out."""
    texts = [(key, str(value).strip()) for key, value in values.items() if not check_fact(key, value)]
    return tuple(texts[:MAX_FACTS])
