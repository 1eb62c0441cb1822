"""A table of suite.toml, read key by key; what is wrong is collected, not raised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qverify.closest_names import closest_names
from qverify.printable import printable

MOST_SHOWN = 60


class Mistakes:
    """The mistakes of one file, a line each, in the order they were found, each once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, where: str, text: str) -> None:
        line = printable(f"{where}: {text}" if where else text)[:500]
        if line not in self.lines:
            self.lines.append(line)


class Table:
    """One table. where: its name in messages, "" for the file itself. Each method notes a value that is wrong and returns
    the default in its place."""

    def __init__(self, values: Mapping[str, Any], where: str, mistakes: Mistakes):
        self._values, self.where, self.mistakes = values, where, mistakes

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def check_keys(self, known: tuple[str, ...]) -> None:
        """Notes keys that nobody reads."""
        for key in self._values:
            if key not in known:
                near = closest_names(key, known)
                meant = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
                self.wrong(key, f"unknown key; {meant}", shown=False)

    def wrong(self, key: str, wanted: str, shown: bool = True) -> None:
        value = f" = {as_toml(self._values[key])}" if shown and key in self._values else ""
        self.mistakes.add(self.where, f"{key}{value}: {wanted}")

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str, default: str = "", most: int = 200) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str) or (key in self._values and not value.strip()) or len(value) > most:
            self.wrong(key, f"wanted a text of at most {most} characters")
            return default
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Returns a list of texts, or one text as a list of one."""
        value = self._values.get(key, [])
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
            self.wrong(key, "wanted a list of texts")
            return ()
        return tuple(dict.fromkeys(words))

    def truth(self, key: str, default: bool = False) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "wanted true or false")
            return default
        return value

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(key, f"wanted a whole number from {least} to {most}")
            return default
        return value

    def seconds(self, key: str, default: float, most: float = 1e7) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            self.wrong(key, f"wanted seconds, more than 0 and at most {most:g}")
            return default
        return float(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, f"wanted a table [{key}]")
            return {}
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """Returns a table of texts and numbers, as texts."""
        found = {}
        for name, value in self.table(key).items():
            if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 200:
                self.mistakes.add(
                    self.where, f"{key}.{name} = {as_toml(value)}: wanted a text of at most 200 characters"
                )
            else:
                found[str(name)[:100]] = str(value)
        return found


def as_toml(value: object) -> str:
    """Returns a value about as TOML writes it, shortened."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
