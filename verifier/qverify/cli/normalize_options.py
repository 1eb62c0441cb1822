"""Normalizes the spelling of options: -s and -r without a value mean True, -s may name an engine, and underscores in long options mean
dashes."""

from __future__ import annotations

import re

SWITCHES = {"-s", "--run-sim", "-r", "--dump-all-nodes-results"}
ENGINE_SWITCHES = {"-s", "--run-sim"}
BOOLEAN = {"true": "True", "false": "False", "1": "True", "0": "False", "yes": "True", "no": "False"}


def _is_value(switch: str, word: str, on_farm: bool) -> bool:
    """Returns whether the word behind a switch is its value: a bool, or for -s an engine. on_farm: whether the command goes to a
    farm, whose names of engines are not known here."""
    if word.lower() in BOOLEAN:
        return True
    return switch in ENGINE_SWITCHES and (word.partition(",")[0] in _engine_names() or (on_farm and _is_name(word)))


def _engine_names() -> list[str]:
    from qverify_agents.errors import BadAddress
    from qverify_agents.inventory import read_engines

    from qverify import engines

    try:
        return [*engines.names(), *read_engines()]
    except BadAddress:  # the command says it, if it uses the inventory
        return engines.names()


def _is_name(word: str) -> bool:
    from qverify_agents.inventory_tables import ENGINE_NAME

    return ENGINE_NAME.fullmatch(word) is not None


def normalize_options(argv: list[str]) -> list[str]:
    """Returns the words with dashes for underscores in the names of long options, and with True after an -s or -r
    without a value. Words after `--` are unchanged."""
    normalized: list[str] = []
    words = list(argv)
    on_farm = any(word.partition("=")[0] == "--server" for word in words)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*normalized, word, *words]
        if re.match(r"--[a-zA-Z]", word):
            name, equals, value = word.partition("=")
            word = name.replace("_", "-") + equals + value
        name, equals, value = word.partition("=")
        if name in SWITCHES:
            if not equals:
                value = words.pop(0) if words and _is_value(name, words[0], on_farm) else "True"
            normalized += [name, BOOLEAN.get(value.lower(), value)]
            continue
        normalized.append(word)
    return normalized
