"""y = index of the first (or last) minimum along axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops.arg_max import find_best

Array = npt.NDArray[Any]
WORDS = ("axis", "select_last")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    return (find_best(node, inputs, graph, np.less_equal if node.words[1] else np.less),)
