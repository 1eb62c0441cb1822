"""Words of a model.bin that would have the runtime read outside the file or compute for hours: refused at load by what they
are, or computed in a time that its tensors bound."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.builder import float_word
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode

from tests.ops.cases import gru, lstm, lstm_integer, rnn
from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
CASES = {"gru": gru, "lstm": lstm, "lstm_integer": lstm_integer, "rnn": rnn}


def loaded(graph: Graph, folder: Path) -> tuple[int, str]:
    """Returns the exit status of the runtime that loads the model, and what it says on stderr."""
    (folder / "model.bin").write_bytes(encode(graph))
    command = [str(binary()), "model_info", f"--model_file={folder / 'model.bin'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.parametrize("op", list(CASES))
def test_a_recurrence_without_words_is_refused_before_one_is_read(op: str, tmp_path: Path) -> None:
    """What follows in WORD is an input of the next node, which is no direction."""
    made = RandomNodes("ref-exact", 5)
    CASES[op].random_nodes(made)
    count = len(made.nodes[0].words)
    made.nodes = [replace(made.nodes[0], words=()), *made.nodes[1:]]
    status, said = loaded(made.graph(), tmp_path)
    assert status == 2 and f"0 words, wanted {count}" in said


@pytest.mark.parametrize(("classes", "boxes"), [(1024, 1024), (1024, 1025)])
def test_boxes_that_may_be_kept_are_limited(classes: int, boxes: int, tmp_path: Path) -> None:
    r = RandomNodes("ref-exact", 5)
    x, scores = r.plain(np.zeros((1, boxes, 4), np.float32)), r.plain(np.zeros((1, classes, boxes), np.float32))
    words = (boxes, 0, float_word(0.5), 0, float_word(0.0))
    r.node("non_max_suppression", (x, scores), r.plain_output("int64", (classes * boxes, 3)), words)
    status, said = loaded(r.graph(), tmp_path)
    if boxes == 1024:
        assert status == 0, said
    else:
        assert status == 2 and "1049600 boxes may be kept, wanted 1048576 or fewer" in said


def weighted(taps: tuple[int, int], size: tuple[int, int]) -> RandomNodes:
    """A plane that keeps its size, every output of it with so many taps."""
    r = RandomNodes("ref-exact", 5)
    index = np.concatenate([r.rng.integers(0, n, n * t) for n, t in zip(size, taps, strict=True)]).astype(np.int32)
    tables = r.constant(index), r.constant(r.rng.normal(size=len(index)).astype(np.float32))
    r.node("resize_weighted", (r.floats(size), *tables), r.float_output(size), taps)
    return r


@pytest.mark.parametrize(("taps", "word"), [((20, 28), None), ((21, 28), 0), ((20, 29), 1), ((65536, 65536), 0)])
def test_taps_of_a_resize_are_limited_by_its_input(taps: tuple[int, int], word: int | None, tmp_path: Path) -> None:
    status, said = loaded(weighted(taps, (3, 5)).graph(), tmp_path)
    if word is None:
        assert status == 0, said
    else:
        assert status == 2 and f"word {word} is {taps[word]}, wanted at most 4 * {(3, 5)[word]} + 8" in said


def test_a_resize_of_as_many_taps_as_it_may_have_ends(tmp_path: Path) -> None:
    """There would be 1.7e11 products if each output made those of all its taps."""
    agree(weighted((1288, 1288), (320, 320)), (binary(),), tmp_path, "seed 5")


def test_the_order_of_a_long_line_ends(tmp_path: Path) -> None:
    """There would be 1.4e11 moves if each element went to its place among those before it."""
    r = RandomNodes("ref-exact", 5)
    size = 1 << 19
    for value in (np.arange(size, dtype=np.int32), r.rng.integers(-9, 9, size).astype(np.float32)):
        x = r.plain(value)
        r.node("top_k", (x,), (r.like(x, (size,)), r.plain_output("int64", (size,))), (0, 1))
    agree(r, (binary(),), tmp_path, "seed 5")
