"""Reads the history of a farm's server, for `qverify report matrix --server`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qverify.errors import BadFileError
from qverify.report.matrix.document import StoredRun
from qverify.report.read_report import build_checked

from qverify_farm.client.http import MAX_REPORT_BYTES, FarmServer, is_open_to_listeners, server_url
from qverify_farm.client.tokens import token_for
from qverify_farm.client.verify_on_farm import API
from qverify_farm.suites.stored_runs import labelled

PAGE = 500  # runs of one reply


def read_history(
    server: str,
    token: str | None,
    suites: Sequence[str],
    limit: int,
    labels: Mapping[str, str],
    warn: Callable[[str], None],
) -> list[StoredRun]:
    """Returns the newest runs of a server's history, at most `limit` for each suite. suites: names, () for all. labels: facts of the
    runs that do not state them themselves. warn: is told that the token goes unencrypted. Raises UsageError if the server refuses it, ServerError if it cannot be reached."""
    url = server_url(server)
    secret = token_for(url, token)
    if secret and is_open_to_listeners(url):
        warn(f"qverify: {url}: the token goes there unencrypted; https:// protects it")
    runs = list[StoredRun]()
    with FarmServer(url, secret) as farm:
        for suite in suites or ("",):
            query = {"suite": suite} if suite not in ("", "all") else {}
            for offset in range(0, limit, PAGE):
                rows = _page(farm, query, min(PAGE, limit - offset), offset)
                runs += rows
                if not rows:
                    break
    return labelled(runs, labels)


def _page(farm: FarmServer, query: Mapping[str, str], limit: int, offset: int) -> list[StoredRun]:
    reply: Any = farm.get(f"{API}/history/runs", MAX_REPORT_BYTES, **query, limit=limit, offset=offset)
    try:
        return [build_checked(StoredRun, row) for row in reply["runs"]]
    except (KeyError, TypeError, ValueError) as error:
        raise BadFileError(f"{farm.url}{API}/history/runs: not the history of a farm: {error}") from error
