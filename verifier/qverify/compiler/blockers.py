"""What keeps a model from being compiled: all of it, grouped by operator and reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qverify.errors import BlockedError, NotOnHostError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView
from qverify.plural import count

NAMED = re.compile(r"(.*?) \((\w+)\): (.*)", re.DOTALL)  # NODE (OPERATOR): reason, as every refusal of a node begins
ENDS = ("QuantizeLinear", "DequantizeLinear")
VARIES = re.compile(r"'[^']*'|\[[^]]*\]|\d+")  # names, dims and numbers: the same reason has other ones at each node


class Blockers:
    """Collects the refusals of a model's nodes. nodes: names of those that are refused, which no page is asked about
    again. why: the text of each node to which a refusal applies. not_on_host: whether one of them is of that kind."""

    def __init__(self, view: GraphView):
        self._view, self._groups = view, dict[tuple[str, str], list[str]]()
        self.nodes: set[str] = set()
        self.why: dict[str, str] = {}
        self.not_on_host = False

    @contextmanager
    def at(self, node: Any) -> Iterator[None]:
        """Keeps an UnsupportedError raised inside as a refusal of this node, or of the node that its text names."""
        try:
            yield
        except UnsupportedError as error:
            self.add(node, error)

    def add(self, node: Any, error: UnsupportedError) -> None:
        """Keeps the refusal."""
        text, kind = str(error), node.op_type
        self.nodes.add(node.name)
        self.not_on_host |= isinstance(error, NotOnHostError)
        named = NAMED.fullmatch(text)
        reason, apart = text, node.name
        if named is not None and named[1] in self._view.order:
            self.nodes.add(named[1])
            apart, kind, reason = named[1], named[2], named[3]
        self.why.setdefault(apart, text)
        same = self._groups.setdefault((kind, VARIES.sub("", reason.partition(". ")[0])), [])
        if text not in same:
            same.append(text)

    def follows(self, node: Any) -> bool:
        """Returns whether a QuantizeLinear or DequantizeLinear beside the node is refused: then nothing can be said of
        the node itself."""
        if not self.nodes:
            return False
        makers = [self._view.producer[i] for i in node.input if i in self._view.producer]
        beside = [*makers, *(user for o in node.output for user in self._view.consumers.get(o, ()))]
        return any(n.name in self.nodes and n.op_type in ENDS for n in beside)

    def __bool__(self) -> bool:
        return bool(self._groups)

    def check(self) -> None:
        """Raises the UnsupportedError of the refusals; nothing where there are none."""
        lines = [_line(kind, texts) for (kind, _), texts in self._by_size()]
        if len(lines) == 1:
            raise UnsupportedError(lines[0])
        if lines:
            nodes = count(sum(map(len, self._groups.values())), "node")
            raise BlockedError(f"{self._view.file}: {len(lines)} things keep {nodes} from being compiled", lines)

    def _by_size(self) -> list[tuple[tuple[str, str], list[str]]]:
        return sorted(self._groups.items(), key=lambda group: -len(group[1]))


def _line(kind: str, texts: list[str]) -> str:
    return texts[0] + (f" ({len(texts)} {kind} nodes in all)" if len(texts) > 1 else "")
