"""Collects everything that keeps a model from being compiled, grouped by operator and reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qverify.errors import BlockedError, NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView
from qverify.plural import count

NAMED = re.compile(r"(.*?) \((\w+)\): (.*)", re.DOTALL)  # NODE (OPERATOR): reason, the form of every refusal of a node
ENDS = ("QuantizeLinear", "DequantizeLinear")
VARIES = re.compile(
    r"'[^']*'|\[[^]]*\]|\d+"
)  # names, dims and numbers, which differ between nodes refused for the same reason


class Blockers:
    """Collects the refusals of a model's nodes.

    Attributes:
        nodes: names of the refused nodes, which are not lowered.
        why: node name to the text of its refusal.
        not_on_host: whether one of the refusals is a NotOnHostError.
    """

    def __init__(self, view: GraphView):
        self._view, self._groups = view, dict[tuple[str, str], list[str]]()
        self.nodes: set[str] = set()
        self.why: dict[str, str] = {}
        self.not_on_host = False

    @contextmanager
    def at(self, node: Any) -> Iterator[None]:
        """Records an UnsupportedError raised inside the with block as a refusal of this node, or of the node its text
        names."""
        try:
            yield
        except UnsupportedError as error:
            self.add(node, error)

    def add(self, node: Any, error: UnsupportedError) -> None:
        """Records a refusal of this node, or of the node that the error's text names."""
        text, kind = str(error), ""  # of a tensor, not of a node
        self.nodes.add(node.name)
        self.not_on_host |= isinstance(error, NotOnHostError)
        named = NAMED.fullmatch(text)
        reason, name = text, node.name
        if named is not None and named[1] in self._view.order:
            self.nodes.add(named[1])
            name, kind, reason = named[1], named[2], named[3]
        self.why.setdefault(name, text)
        same = self._groups.setdefault((kind, VARIES.sub("", reason.partition(". ")[0])), [])
        if text not in same:
            same.append(text)

    def follows(self, node: Any) -> bool:
        """Returns whether a QuantizeLinear or DequantizeLinear next to the node is refused; the node itself cannot be
        judged then."""
        if not self.nodes:
            return False
        makers = [self._view.producer[i] for i in node.input if i in self._view.producer]
        neighbours = [*makers, *(user for o in node.output for user in self._view.consumers.get(o, ()))]
        return any(n.name in self.nodes and n.op_type in ENDS for n in neighbours)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def check(self) -> None:
        """Raises one UnsupportedError for all refusals, if there are any."""
        lines = [_line(kind, texts) for (kind, _), texts in self._by_size()]
        if len(lines) == 1:
            raise UnsupportedError(lines[0], self.why)
        if lines:
            nodes = count(len(self.why), "node")
            header = f"{self._view.file}: {len(lines)} things keep {nodes} from being compiled"
            raise BlockedError(header, lines, self.why)

    def _by_size(self) -> list[tuple[tuple[str, str], list[str]]]:
        return sorted(self._groups.items(), key=lambda group: -len(group[1]))


def _line(kind: str, texts: list[str]) -> str:
    what = f"{kind} nodes" if kind else "tensors"
    return texts[0] + (f" ({len(texts)} {what} in all)" if len(texts) > 1 else "")
