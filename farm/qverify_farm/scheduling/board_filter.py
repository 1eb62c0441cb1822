"""Decides which boards fit a job, by name or by tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoardFilter:
    """The boards that fit a job: those with one of these names, and those that have all tags of one of these sets."""

    names: frozenset[str]
    tags: tuple[tuple[tuple[str, str], ...], ...] = ()

    @classmethod
    def of(cls, words: tuple[str, ...]) -> BoardFilter:
        """Returns the filter for these words, each a board's name or tags such as "soc=j5,firmware=1.2"."""
        tags = tuple(tags_of(word) for word in words if is_tags(word))
        return cls(frozenset(word for word in words if not is_tags(word)), tags)

    def fits(self, name: str, tags: Mapping[str, str]) -> bool:
        """Returns whether a board of this name and these tags passes the filter."""
        return name in self.names or any(all(tags.get(k) == v for k, v in required) for required in self.tags)


def is_tags(word: str) -> bool:
    """Returns whether a word consists of tags. An address such as local?memory=1M is a board's name instead."""
    head = word.partition("?")[0]
    return "=" in head and ":" not in head


def tags_of(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the sorted (key, value) pairs of tags such as "soc=j5,firmware=1.2"."""
    pairs = (part.partition("=") for part in text.split(","))
    return tuple(sorted((key.strip(), value.strip()) for key, _, value in pairs))
