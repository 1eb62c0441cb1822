"""Which boards fit a job: names, or tags that all must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job asks for: one board of several kinds. names: of boards. tags: each a set of tags that a board must have
    all of."""

    names: frozenset[str]
    tags: tuple[tuple[tuple[str, str], ...], ...] = ()

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Wanted:
        """Returns what these words ask for: a board's name, or "soc=j5,firmware=1.2"."""
        tags = tuple(tags_of(word) for word in words if is_tags(word))
        return cls(frozenset(word for word in words if not is_tags(word)), tags)

    def fits(self, name: str, tags: Mapping[str, str]) -> bool:
        """Returns whether a board of this name and these tags will do."""
        return name in self.names or any(all(tags.get(k) == v for k, v in wanted) for wanted in self.tags)


def is_tags(word: str) -> bool:
    """Returns whether a word is tags; an address, such as local?memory=1M, is a board's name."""
    head = word.partition("?")[0]
    return "=" in head and ":" not in head


def tags_of(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of "soc=j5,firmware=1.2", sorted."""
    pairs = (part.partition("=") for part in text.split(","))
    return tuple(sorted((key.strip(), value.strip()) for key, _, value in pairs))
