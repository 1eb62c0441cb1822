"""Sessions of browsers: a random id instead of the token; they end by logout, by time, and with their token."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy
from qverify_farm.service import sessions
from qverify_farm.service.access import Scope
from qverify_farm.service.known_callers import KnownCallers
from qverify_farm.service.routes.events import stream
from qverify_farm.service.sessions import MAX_AGE_S, MAX_IDLE_S, MAX_SESSIONS_PER_TOKEN, begin_session, session_of
from qverify_farm.service.tokens import create_token, hash_of
from qverify_farm.store.database import SCHEMA_REVISION, Database, migrate, open_database, revision_of
from qverify_farm.store.tables import BrowserSessionRecord, TokenRecord
from sqlalchemy import select

from tests.farm.service_app import Service, error_of, serving
from tests.farm.test_database import FIRST

WHOAMI, SESSION = "/api/v1/whoami", "/api/v1/session"
NAME = "qverify_session"


def log_in(service: Service, secret: str, **headers: str) -> dict[str, str]:
    """Returns the headers of a browser that has logged in with a token."""
    service.client.cookies.clear()
    reply = service.client.post(SESSION, json={"token": secret}, headers=headers)
    assert reply.status_code == 200, reply.text
    cookie = reply.cookies[NAME]
    service.client.cookies.clear()
    return {"Cookie": f"{NAME}={cookie}"}


def status(service: Service, headers: dict[str, str]) -> int:
    return int(service.client.get(WHOAMI, headers=headers).status_code)


def rows(service: Service) -> list[BrowserSessionRecord]:
    with service.farm.database.read() as session:
        return list(session.scalars(select(BrowserSessionRecord)))


def test_the_cookie_has_a_session_of_which_only_the_hash_is_stored(any_service: Service) -> None:
    secret = any_service.token()
    reply = any_service.client.post(SESSION, json={"token": secret})
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and f"Max-Age={7 * 86400}" in cookie
    assert secret not in cookie and "Secure" not in cookie
    (row,) = rows(any_service)
    assert row.hash == hash_of(reply.cookies[NAME]) and reply.cookies[NAME] not in str(vars(row))
    assert any_service.client.get(WHOAMI).json()["role"] == "admin"  # by its cookie


def test_tokens_and_sessions_are_not_interchangeable(service: Service) -> None:
    secret = service.token()
    browser = log_in(service, secret)
    session = browser["Cookie"].partition("=")[2]
    assert status(service, browser) == status(service, {"Authorization": f"Bearer {secret}"}) == 200  # both remembered
    assert status(service, {"Authorization": f"Bearer {session}"}) == 401
    for name in (NAME, "qverify_token"):
        assert status(service, {"Cookie": f"{name}={secret}"}) == 401
    for wrong in ("qs_" + "A" * 43, "x", session.upper()):
        assert status(service, {"Cookie": f"{NAME}={wrong}"}) == 401


def test_logout_ends_only_this_session(any_service: Service) -> None:
    secret = any_service.token()
    first, second = log_in(any_service, secret), log_in(any_service, secret)
    assert status(any_service, first) == status(any_service, second) == 200
    foreign = any_service.client.delete(SESSION, headers={**first, "Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403 and status(any_service, first) == 200
    reply = any_service.client.delete(SESSION, headers=first)
    assert 'qverify_session=""' in reply.headers["Set-Cookie"] and "Max-Age=0" in reply.headers["Set-Cookie"]
    assert (status(any_service, first), status(any_service, second)) == (401, 200)
    assert status(any_service, {"Authorization": f"Bearer {secret}"}) == 200


def test_a_second_log_in_of_a_browser_ends_its_first_session(service: Service) -> None:
    first = log_in(service, service.token())
    second = log_in(service, service.token(), **first)
    assert (status(service, first), status(service, second), len(rows(service))) == (401, 200, 1)


def test_revoking_a_token_ends_its_sessions_at_once(any_service: Service) -> None:
    admin, secret = any_service.bearer(), any_service.token("viewer", "default")
    browser, other = log_in(any_service, secret), log_in(any_service, any_service.token("viewer", "default"))
    assert status(any_service, browser) == 200
    with any_service.farm.database.read() as session:
        token = session.scalars(select(TokenRecord).where(TokenRecord.hash == hash_of(secret))).one().id
    assert any_service.client.delete(f"/api/v1/tokens/{token}", headers=admin).status_code == 200
    assert (status(any_service, browser), status(any_service, other)) == (401, 200)
    assert token not in [row.token for row in rows(any_service)]


def test_an_expired_token_ends_its_sessions(service: Service) -> None:
    secret = service.token(days=1)
    browser = log_in(service, secret)
    with service.farm.database.write() as session:
        session.scalars(select(TokenRecord).where(TokenRecord.hash == hash_of(secret))).one().expires = time.time() - 1
    service.farm.known_callers.forget()
    assert status(service, browser) == 401


def test_a_session_ends_when_unused_and_at_its_maximum_age(database: Database) -> None:
    with database.write() as session:
        row, _ = create_token(session, "ann", "admin", None, None, 0.0)
        secret = begin_session(session, row.id, 1000.0)
        for now, lives in ((1000.0 + MAX_IDLE_S - 1, True), (1000.0 + MAX_IDLE_S, False)):
            assert (session_of(session, secret, now) is not None) is lives
        kept = session.scalars(select(BrowserSessionRecord)).one()
        kept.used = 1000.0 + MAX_AGE_S - 60
        assert session_of(session, secret, 1000.0 + MAX_AGE_S - 1) is kept
        assert session_of(session, secret, 1000.0 + MAX_AGE_S) is None
        sessions.forget_sessions(session, 1000.0 + MAX_AGE_S)
        assert session.scalars(select(BrowserSessionRecord)).all() == []


def test_using_a_session_keeps_it(service: Service) -> None:
    browser = log_in(service, service.token())
    long_ago = time.time() - MAX_IDLE_S + 100
    with service.farm.database.write() as session:
        session.scalars(select(BrowserSessionRecord)).one().used = long_ago
    assert status(service, browser) == 200 and rows(service)[0].used > long_ago + MAX_IDLE_S / 2


def test_a_session_that_was_seen_ended_stays_so_when_the_clock_is_set_back(service: Service) -> None:
    browser = log_in(service, service.token())
    with service.farm.database.write() as session:
        session.scalars(select(BrowserSessionRecord)).one().used = time.time() - MAX_IDLE_S - 1
    service.farm.known_callers.forget()
    assert status(service, browser) == 401 and rows(service) == []


def test_a_token_has_a_bounded_number_of_sessions(database: Database) -> None:
    with database.write() as session:
        row, _ = create_token(session, "ann", "admin", None, None, 0.0)
        made = [begin_session(session, row.id, 1000.0 + number) for number in range(MAX_SESSIONS_PER_TOKEN + 2)]
        lives = [session_of(session, one, 1100.0) is not None for one in made]
    assert lives == [False, False] + [True] * MAX_SESSIONS_PER_TOKEN


def test_a_token_revoked_during_its_lookup_is_not_remembered(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownCallers(service.farm.database)
    secret = service.token()
    monkeypatch.setattr("qverify_farm.service.known_callers._note_use", lambda *_: known.forget())
    assert known.find(secret) is not None and known.recall(secret) is None


@pytest.mark.parametrize("how", ["https", "a proxy"])
def test_behind_https_the_cookie_is_never_sent_in_the_clear(how: str, tmp_path: Path) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path, behind_proxy=how == "a proxy") as service:
        secret = service.token()
        url = "https://farm.example" if how == "https" else "http://127.0.0.1:8787"
        reply = service.client.post(f"{url}{SESSION}", json={"token": secret})
        assert "; Secure" in reply.headers["Set-Cookie"]
        assert "; Secure" in service.client.delete(f"{url}{SESSION}").headers["Set-Cookie"]


def test_pages_of_other_sites_cannot_log_in_and_wrong_tokens_are_limited(service: Service) -> None:
    secret = service.token()
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        error_of(service.client.post(SESSION, json={"token": secret}, headers=headers), 403)
    codes = [service.client.post(SESSION, json={"token": "qv_" + "x" * 43}).status_code for _ in range(25)]
    assert codes[0] == 401 and codes[-1] == 429 and rows(service) == []
    assert service.client.post(SESSION, json={"token": secret}).status_code == 200


def test_pages_log_in_and_out_under_https_too(service: Service) -> None:
    from qverify_farm.ui.routes import add_pages

    add_pages(service.app)
    secret, client = service.token(), service.client
    client.base_url = "https://farm.example"  # type: ignore[assignment]
    own = {"Origin": "https://farm.example"}
    client.cookies.set("qverify_token", secret, domain="farm.example")  # of a version without sessions
    assert client.get("/login").status_code == 200 and "qverify_token" not in client.cookies
    form = {"form_token": client.cookies["qverify_form"], "token": secret}
    reply = client.post("/login", data=form, headers=own, follow_redirects=False)
    assert reply.status_code == 303 and client.cookies[NAME].startswith("qs_")
    run = service.submit({"Authorization": f"Bearer {secret}"})
    reply = client.post(f"/runs/{run}/cancel", data=form, headers=own, follow_redirects=False)
    assert reply.status_code == 303, reply.text
    ended = {"Cookie": f"{NAME}={client.cookies[NAME]}"}
    assert client.post("/logout", data=form, headers=own, follow_redirects=False).status_code == 303
    assert NAME not in client.cookies
    assert status(service, ended) == 401


def test_a_stream_of_events_ends_with_its_session(service: Service) -> None:
    secret = service.token()
    browser = log_in(service, secret)
    caller = service.farm.known_callers.find(browser["Cookie"].partition("=")[2])
    assert caller is not None and service.farm.known_callers.is_valid(caller)

    async def watch() -> list[bytes]:
        pieces = []
        async for piece in stream(Scope(service.farm, caller, "p", "default", "r"), None, None):
            pieces.append(piece)
            if len(pieces) == 2:
                await asyncio.to_thread(service.client.delete, SESSION, headers=browser)
        return pieces

    async def bounded() -> list[bytes]:
        return await asyncio.wait_for(watch(), 20)

    assert 2 <= len(asyncio.run(bounded())) <= 4


def test_retention_removes_sessions_that_have_ended(service: Service) -> None:
    log_in(service, service.token())
    service.app.state.retention.sweep(time.time() + MAX_IDLE_S + 1)
    assert rows(service) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_without_sessions_is_migrated(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A database of the first released schema is migrated in place; its token can then log a browser in."""
    if kind == "sqlite":
        with sqlite3.connect(tmp_path / "old.db") as old:
            old.executescript(FIRST.read_text())
        old.close()
        _check_migrated(str(tmp_path / "old.db"))
        return
    with request.getfixturevalue("postgres_server").database() as url:
        engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
        migrate(engine, "0001")
        assert not sqlalchemy.inspect(engine).has_table("browser_sessions")
        engine.dispose()
        _check_migrated(url)


def _check_migrated(url: str) -> None:
    opened = open_database(url, "a test")
    try:
        assert revision_of(opened._read_engine) == SCHEMA_REVISION
        with opened.write() as session:
            row, _ = create_token(session, "new", "admin", None, None, time.time())
            secret = begin_session(session, row.id, time.time())
        found = cast(Any, SimpleNamespace(caller=KnownCallers(opened).find(secret)))
        assert found.caller.name == "new" and found.caller.session == hash_of(secret)
    finally:
        opened.close()
