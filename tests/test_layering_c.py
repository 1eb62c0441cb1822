"""The arrows of the C tree: who may include whom, and no circle among files or folders."""

from __future__ import annotations

import re
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[1] / "board_runtime"
FLOORS = (  # the lowest first: a room (a folder, or NAME.h with NAME.c) includes from lower floors only; never up, never sideways
    ("include/qvrt", "hook"),
    ("src/elements", "src/errors", "src/posix", "src/threads", "src/check_graph", "src/arena", "src/digest"),
    ("src/byte_order", "src/run", "src/model_bin", "src/loaded", "src/arithmetic"),
    ("src/ops", "src/commands"),
    ("src/agent", "src/faults"),
    ("src/main", "fuzz", "mcu"),
    ("hook/example",),
)
FILES = sorted(p.relative_to(RUNTIME).as_posix() for p in RUNTIME.rglob("*.[ch]"))


def includes(path: str) -> list[str]:
    """The files of board_runtime that a file includes, as paths relative to it."""
    found = []
    for name in re.findall(r'^#\s*include "([^"]+)"', (RUNTIME / path).read_text(), re.M):
        places = [(RUNTIME / path).parent / name, RUNTIME / "include" / name, RUNTIME / "src" / name]
        places = [p.resolve() for p in places if p.exists()]
        assert places, f"{path} includes {name}, which is nowhere"
        found.append(places[0].relative_to(RUNTIME).as_posix())
    return found


INCLUDES = {path: includes(path) for path in FILES}


def room(path: str) -> str:
    """The folder that holds a file, or its own name without suffix where it lies in no room."""
    folder, stem = path.rpartition("/")[0], path.rpartition(".")[0]
    return stem if folder in ("include", "src") else folder


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """The nodes that lie on a circle, or lead to one; empty when there is none."""
    left = {k: v - {k} for k, v in arrows.items()}
    while ends := [k for k, v in left.items() if not v & left.keys()]:
        for k in ends:
            del left[k]
    return sorted(left)


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_files():
    assert len(FILES) > 80 and sum(map(len, INCLUDES.values())) > 100
    assert [path for path, named in INCLUDES.items() if path in named] == []
    assert circle({path: set(named) for path, named in INCLUDES.items()}) == []


def test_no_circle_of_folders():
    arrows: dict[str, set[str]] = {}
    for path, named in INCLUDES.items():
        arrows.setdefault(room(path), set()).update(room(n) for n in named)
    assert circle(arrows) == []


NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"])*\"", re.DOTALL)
DEFINITION = re.compile(r"^(?!static)[a-z_][\w *]*?\b(qv_\w+)\([^;{]*\)\s*\{", re.M)


def test_no_circle_of_calls_between_files():
    """A file that uses a function of another one is above it, whatever their headers say."""
    texts = {p: NO_CODE.sub("", (RUNTIME / p).read_text()) for p in FILES if p.startswith("src/") and p.endswith(".c")}
    defined = {name: path for path, text in texts.items() for name in DEFINITION.findall(text)}
    assert len(defined) > 300
    used = {path: {defined[n] for n in re.findall(r"\bqv_\w+", text) if n in defined} for path, text in texts.items()}
    assert circle(used) == []


def test_floors():
    """Every file stands on a floor, and includes from its own room and lower floors only."""
    floor_of = {r: number for number, rooms in enumerate(FLOORS) for r in rooms}
    broken = []
    for path, named in INCLUDES.items():
        for name in named:
            if room(name) != room(path) and floor_of[room(name)] >= floor_of[room(path)]:
                broken.append(f"{path} includes {name}")
    assert broken == []


def test_floors_name_what_is_there():
    assert {r for rooms in FLOORS for r in rooms} == {room(path) for path in FILES}


def test_every_header_is_guarded_by_its_name():
    """QV_NAME_H, so that no two headers hide each other."""
    guards: dict[str, str] = {}
    for path in (p for p in FILES if p.endswith(".h")):
        (guard,) = re.findall(r"^#ifndef (\w+_H)\n#define \1$", (RUNTIME / path).read_text(), re.M)
        assert guards.setdefault(guard, path) == path
