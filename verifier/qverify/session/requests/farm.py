"""Makes the request to a farm, whose client stands above this package: it is loaded by name, and only for --server."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from qverify.extras import import_farm
from qverify.options.commands import keywords
from qverify.options.given import Given

SENT_OTHERWISE = frozenset({"models", "board", "inputs", "server", "token"})


def farm_request(given: Given, models: list[str]) -> Any:
    """Returns the request to a farm (a FarmRequest of the client). models: paths of -m. Raises UsageError for a wrong URL, and
    for options that a job of a farm cannot have."""
    options = {
        keyword: given[option.name]
        for keyword, option in keywords("verify").items()
        if keyword not in SENT_OTHERWISE and option.name in given.named
    }
    url = load("http").server_url(given["server"])
    on_farm = load("verify_on_farm")
    token = load("tokens").token_for(url, given["token"])
    request = on_farm.FarmRequest(url, token, tuple(models), given["boards"], given["files"], options=options)
    on_farm.check_farm_request(request)
    return request


def load(name: str) -> ModuleType:
    """Returns a module of the farm's client. Raises MissingExtraError if a library that it needs is not installed."""
    return import_farm(f"client.{name}", "--server")
