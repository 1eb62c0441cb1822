"""The ops, one page each, which has the formula, WORDS, prepare (once per model) and simulate. The name of the file is
the op's stem."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node
from qverify.pages import load_page, page_names

Array = npt.NDArray[Any]


class OpPage(Protocol):
    """The page of an op.

    WORDS: names of the node's words. The last ones may end in `[rank]` or `[C]` and stand for one word per dim or
    channel. simulate: takes dense valid arrays, and returns dense valid arrays of the outputs' dtypes.

    A page may also have prepare(node, graph), which computes everything that depends on constants only. The page of a
    float sum may have magnitude(node, inputs, graph), which returns an upper bound of the sums of the magnitudes of an
    output's terms."""

    WORDS: tuple[str, ...]

    def simulate(self, node: Node, inputs: list[Array | None], graph: Graph, state: Any) -> tuple[Array, ...]: ...


@cache
def page(stem: str) -> OpPage:
    """Returns the page of an op. Raises BadFileError for an unknown stem."""
    if stem not in stems():
        raise BadFileError(f"unknown op {stem!r} in model.bin; it needs a newer qverify")
    return _loaded(stem)


# Ops that only move elements, so that a NaN keeps its bits. The same list is in MOVES in board_runtime/src/ops/op.c.
MOVES = {
    *("cast", "concat", "depth_to_space", "gather", "gather_elements", "gather_nd", "pad", "reshape"),
    *("resize_nearest", "slice", "split", "tile", "transpose", "unpack", "where"),
}
NAN = np.uint32(0x7FC00000).view(np.float32)


@cache
def stems() -> tuple[str, ...]:
    """Returns the stems of all ops, which are the names of the files in this folder."""
    return tuple(page_names(__name__))


@cache
def _loaded(stem: str) -> OpPage:
    page = load_page(__name__, stem, ("WORDS", "simulate"))
    if not isinstance(page.WORDS, tuple) or not all(isinstance(w, str) for w in page.WORDS):
        raise ImportError(
            f"ops/{stem}.py: WORDS is not a tuple of names; wanted the names of its node's words, () for none"
        )
    return typing.cast(OpPage, page)  # `cast` is a page of this folder


def prepare(node: Node, graph: Graph) -> Any:
    """Returns the state that the op's page computes once per model, from constants only, or None if it has no
    prepare."""
    op_page = page(node.op)
    return op_page.prepare(node, graph) if hasattr(op_page, "prepare") else None


def words(node: Node) -> dict[str, int]:
    """Returns the node's words by name. Raises BadFileError if their number is wrong."""
    names = page(node.op).WORDS
    repeated = [n for n in names if n.endswith("]")]  # these are last, and share the remaining words equally
    if repeated:
        single = len(names) - len(repeated)
        each = (len(node.words) - single) // len(repeated)
        names = names[:single] + tuple(f"{n.partition('[')[0]}{i}" for n in repeated for i in range(each))
    if len(names) != len(node.words):
        raise BadFileError(f"node {node.name!r} ({node.op}): {len(node.words)} words, wanted {len(names)}")
    return dict(zip(names, node.words, strict=True))


def float_word(word: int) -> Any:
    """Returns the float32 whose bits a word with the suffix `_f32` contains."""
    return np.array(word, np.int32).view(np.float32)[()]


def simulate_node(graph: Graph, node: Node, values: Mapping[str, Array], state: Any = None) -> dict[str, Array]:
    """Returns the node's outputs by name, computed from the values of its inputs. Every NaN that is computed is
    0x7FC00000."""
    op_page = page(node.op)
    if state is None:
        state = prepare(node, graph)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in node.inputs]
    with np.errstate(all="ignore"):  # NaN and infinities are values like others
        # asarray: numpy returns scalars instead of arrays of rank 0
        outputs = [np.asarray(y) for y in op_page.simulate(node, inputs, graph, state)]
    final = outputs if node.op in MOVES else [with_one_nan(y) for y in outputs]
    return dict(zip(node.outputs, final, strict=True))


def with_one_nan(y: Array) -> Array:
    """Returns y. If it is float32, every NaN has the bits 0x7FC00000, because the bits of a computed NaN depend on the
    architecture."""
    if y.dtype != np.float32 or not (lost := np.isnan(y)).any():
        return y
    return np.where(lost, NAN, y)
