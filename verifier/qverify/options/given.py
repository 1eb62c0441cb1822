"""The values of a command's options and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Given(Mapping[str, Any]):
    """The values by the options' names, defaults included.

    Attributes:
        by_name: the values.
        named: names of the options that were given, even with their default value.
        drawings: whether a report of the command draws tensors.
    """

    by_name: Mapping[str, Any]
    named: frozenset[str] = frozenset()
    drawings: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def only(self, *names: str) -> dict[str, Any]:
        """Returns the values of these options, by name."""
        return {name: self.by_name[name] for name in names}

    def and_those(self, others: Given) -> Given:
        """Returns these values and others."""
        return replace(self, by_name={**self.by_name, **others.by_name}, named=self.named | others.named)
