"""Axes of a unit's tensors in classes of equal size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qverify.model_bin.graph import Graph

Key = tuple[str, int]  # name of a tensor, and number of its axis
Sizes = dict[Key, int]


class NoProbe(ValueError):
    """Raised for a unit that cannot be run in another shape."""


@dataclass(slots=True)
class Axes:
    """The axes of a unit's tensors in classes of equal size.

    Attributes:
        parent: another axis of the same class; the root of a class has none.
        fixed: axes that keep their size.
        grows: axes that must not shrink.
        follow: computes the new size of a derived axis from those of the node's inputs.
        spatial, channels: axes along which positions and channels are counted.
    """

    graph: Graph
    parent: dict[Key, Key] = field(default_factory=dict)
    fixed: set[Key] = field(default_factory=set)
    grows: set[Key] = field(default_factory=set)
    follow: dict[Key, Callable[[Sizes], int]] = field(default_factory=dict)
    spatial: set[Key] = field(default_factory=set)
    channels: set[Key] = field(default_factory=set)

    def shape(self, name: str | None) -> tuple[int, ...]:
        return self.graph.spec(name or "").shape

    def root(self, key: Key) -> Key:
        """Returns the axis that represents the class of this one."""
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def join(self, a: Key, b: Key) -> None:
        """Merges the classes of two axes. Raises NoProbe if their sizes differ."""
        if self.shape(a[0])[a[1]] != self.shape(b[0])[b[1]]:
            raise NoProbe(f"{a} and {b} differ")
        self.parent[self.root(a)] = self.root(b)

    def derive(self, key: Key, compute: Callable[[Sizes], int]) -> None:
        """Sets how the size of an output's axis follows from others."""
        self.follow[key] = compute

    def fix(self, name: str | None) -> None:
        """Marks all dims of a tensor as fixed."""
        if name is not None:
            self.fixed |= {(name, i) for i in range(len(self.shape(name)))}
