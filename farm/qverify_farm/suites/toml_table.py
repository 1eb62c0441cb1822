"""Reads a table of suite.toml key by key. Mistakes are collected instead of raised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qverify.closest_names import closest_names
from qverify.printable import printable

MAX_SHOWN_LENGTH = 60


class Mistakes:
    """The mistakes in one file, one line each, in the order in which they were found, without repetitions."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, where: str, text: str) -> None:
        line = printable(f"{where}: {text}" if where else text)[:500]
        if line not in self.lines:
            self.lines.append(line)


class Table:
    """A table of suite.toml. where: its name in messages, or "" for the file itself. The methods that read a value add a mistake
    for a wrong value and return the default instead."""

    def __init__(self, values: Mapping[str, Any], where: str, mistakes: Mistakes):
        self._values, self.where, self.mistakes = values, where, mistakes

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def check_keys(self, allowed: tuple[str, ...]) -> None:
        """Adds a mistake for each key that is not allowed."""
        for key in self._values:
            if key not in allowed:
                near = closest_names(key, allowed)
                hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(allowed)}"
                self.add_mistake(key, f"unknown key; {hint}", show_value=False)

    def add_mistake(self, key: str, text: str, show_value: bool = True) -> None:
        """Adds a mistake about a key. text: what is expected. show_value: whether the message contains the present value."""
        value = f" = {as_toml(self._values[key])}" if show_value and key in self._values else ""
        self.mistakes.add(self.where, f"{key}{value}: {text}")

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str, default: str = "", maximum: int = 200) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str) or (key in self._values and not value.strip()) or len(value) > maximum:
            self.add_mistake(key, f"wanted a text of at most {maximum} characters")
            return default
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Returns a list of texts without repetitions. A single text counts as a list."""
        value = self._values.get(key, [])
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
            self.add_mistake(key, "wanted a list of texts")
            return ()
        return tuple(dict.fromkeys(words))

    def boolean(self, key: str, default: bool = False) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.add_mistake(key, "wanted true or false")
            return default
        return value

    def integer(self, key: str, default: int, minimum: int, maximum: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            self.add_mistake(key, f"wanted a whole number from {minimum} to {maximum}")
            return default
        return value

    def seconds(self, key: str, default: float, maximum: float = 1e7) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= maximum:
            self.add_mistake(key, f"wanted seconds, more than 0 and at most {maximum:g}")
            return default
        return float(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.add_mistake(key, f"wanted a table [{key}]")
            return {}
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """Returns a table of texts and numbers, with the numbers converted to texts."""
        texts = {}
        for name, value in self.table(key).items():
            if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 200:
                self.mistakes.add(
                    self.where, f"{key}.{name} = {as_toml(value)}: wanted a text of at most 200 characters"
                )
            else:
                texts[str(name)[:100]] = str(value)
        return texts


def as_toml(value: object) -> str:
    """Returns a value roughly as TOML writes it, shortened for a message."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_LENGTH else text[: MAX_SHOWN_LENGTH - 3] + "..."
