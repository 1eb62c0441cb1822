"""All ops, one page each: formula, WORDS, prepare (once per model) and simulate. The file name is the op's stem."""

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
    """The page of an op. WORDS: names of the node's words; the last ones, ending in `[rank]` or `[C]`, stand for one
    word per dim or channel. simulate: takes dense valid arrays, returns dense valid arrays of the outputs' dtypes. A
    page may also have prepare(node, graph), which computes what depends on constants alone; and the page of a float sum
    magnitude(node, inputs, graph), at least the largest sum of magnitudes of an output's terms."""

    WORDS: tuple[str, ...]

    def simulate(self, node: Node, inputs: list[Array | None], graph: Graph, state: Any) -> tuple[Array, ...]: ...


def page(stem: str) -> OpPage:
    """Returns the page of an op. Raises BadFileError for an unknown stem."""
    if stem not in stems():
        raise BadFileError(f"unknown op {stem!r} in model.bin; it needs a newer qverify")
    return _loaded(stem)


# Ops that only move elements: a NaN keeps its bits. As MOVES in board_runtime/src/ops/op.c.
MOVES = {
    *("cast", "concat", "depth_to_space", "gather", "gather_elements", "gather_nd", "pad", "reshape"),
    *("resize_nearest", "slice", "split", "tile", "transpose", "unpack", "where"),
}
NAN = np.uint32(0x7FC00000).view(np.float32)


@cache
def stems() -> tuple[str, ...]:
    """Returns the stems of all ops: the files of this folder."""
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
    """Returns what the node's page computes from constants alone, once per model; None if it prepares nothing."""
    of = page(node.op)
    return of.prepare(node, graph) if hasattr(of, "prepare") else None


def words(node: Node) -> dict[str, int]:
    """Returns the node's words by name. Raises BadFileError if their number is wrong."""
    names = page(node.op).WORDS
    ranks = [n for n in names if n.endswith("]")]  # these stand last and share what is left
    if ranks:
        single = len(names) - len(ranks)
        each = (len(node.words) - single) // len(ranks)
        names = names[:single] + tuple(f"{n.partition('[')[0]}{i}" for n in ranks for i in range(each))
    if len(names) != len(node.words):
        raise BadFileError(f"node {node.name!r} ({node.op}): {len(node.words)} words, wanted {len(names)}")
    return dict(zip(names, node.words, strict=True))


def float_word(word: int) -> Any:
    """Returns a `_f32` word as float32."""
    return np.array(word, np.int32).view(np.float32)[()]


def simulate_node(graph: Graph, node: Node, values: Mapping[str, Array], state: Any = None) -> dict[str, Array]:
    """Returns the node's outputs by name, computed from the values of its inputs. Every NaN that it computes is 0x7FC00000."""
    of = page(node.op)
    if state is None:
        state = prepare(node, graph)
    inputs = [None if n is None else graph.constants[n] if n in graph.constants else values[n] for n in node.inputs]
    with np.errstate(all="ignore"):  # NaN and infinities are values like others
        made = [np.asarray(y) for y in of.simulate(node, inputs, graph, state)]  # numpy makes scalars of rank 0
    settled = made if node.op in MOVES else [with_one_nan(y) for y in made]
    return dict(zip(node.outputs, settled, strict=True))


def with_one_nan(y: Array) -> Array:
    """Returns y; of float32 with the bits 0x7FC00000 for every NaN, which no two architectures would agree on."""
    if y.dtype != np.float32 or not (lost := np.isnan(y)).any():
        return y
    return np.where(lost, NAN, y)
