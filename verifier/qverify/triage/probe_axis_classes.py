"""Axes of a unit's tensors in classes of one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from qverify.model_bin.graph import Graph

Key = tuple[str, int]  # a tensor and its axis
Sizes = dict[Key, int]


class NoProbe(ValueError):
    """Raised for a unit of which no other shape is known."""


@dataclass(slots=True)
class Axes:
    """Axes in classes of one size. fixed: classes that keep theirs. grows: those that must not shrink. follow: how a
    derived axis follows from the new sizes of the node's inputs. spatial, channels: by what is counted along them."""

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
        """Returns the class of an axis."""
        while self.parent.get(key, key) != key:
            key = self.parent[key]
        return key

    def join(self, a: Key, b: Key) -> None:
        """Makes two axes one class. Raises NoProbe where their sizes differ."""
        if self.shape(a[0])[a[1]] != self.shape(b[0])[b[1]]:
            raise NoProbe(f"{a} and {b} differ")
        self.parent[self.root(a)] = self.root(b)

    def join_all(self, a: str, b: str) -> None:
        """Joins all axes of two tensors of one rank."""
        for i in range(len(self.shape(a))):
            self.join((a, i), (b, i))

    def derive(self, key: Key, how: Callable[[Sizes], int]) -> None:
        """Makes an output's axis follow from others."""
        self.follow[key] = how

    def fix(self, name: str | None) -> None:
        """Keeps all dims of a tensor."""
        if name is not None:
            self.fixed |= {(name, i) for i in range(len(self.shape(name)))}
