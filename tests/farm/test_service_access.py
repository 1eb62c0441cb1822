"""Access rules: tokens, roles and projects; and what a page of another site in the administrator's browser may not do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from qverify_farm.service import farm
from qverify_farm.service.rate_limits import RateLimit
from qverify_farm.service.tokens import caller_of, create_token, hash_of
from qverify_farm.store.tables import TokenRecord
from sqlalchemy import select

from tests.farm.service_app import HERE, Service, error_of, serving

WHOAMI = "/api/v1/whoami"


def test_without_any_token_this_host_is_administrator(service: Service) -> None:
    who = service.client.get(WHOAMI).json()
    assert (who["role"], who["project"], who["local"]) == ("admin", None, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8787"},  # a name of the attacker's that leads to this host
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": ""},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Via": "1.1 proxy"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer qv_" + "A" * 43},
        {"Authorization": "Bearer ' OR 1=1 --"},
        {"Cookie": "qverify_session=qs_" + "A" * 43},
    ],
)
def test_another_host_name_or_a_wrong_token_is_not_this_host(service: Service, headers: dict[str, str]) -> None:
    reply = service.client.get(WHOAMI, headers=headers)
    assert "no token" in error_of(reply, 401)["what"] and reply.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8787"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_is_refused(service: Service, headers: dict[str, str]) -> None:
    assert "another site" in error_of(service.client.get(WHOAMI, headers=headers), 403)["what"]
    service.bearer()  # once there is a token, it is needed in any case
    error_of(service.client.get(WHOAMI, headers=headers), 401)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:8787"}, {"Sec-Fetch-Site": "same-origin"}, {"Host": "localhost:1"}]
)
def test_a_page_of_this_service_counts_as_this_host(service: Service, headers: dict[str, str]) -> None:
    assert service.client.get(WHOAMI, headers=headers).status_code == 200


def test_requests_from_other_hosts_and_behind_a_proxy_need_a_token(tmp_path: Path) -> None:
    with serving(str(tmp_path / "a.db"), tmp_path / "a", client=("192.0.2.1", 5)) as service:
        error_of(service.client.get(WHOAMI), 401)
    with serving(str(tmp_path / "b.db"), tmp_path / "b", client=HERE, behind_proxy=True) as service:
        error_of(service.client.get(WHOAMI), 401)
        assert service.client.get(WHOAMI, headers=service.bearer()).status_code == 200


def test_once_a_token_exists_every_request_needs_one(any_service: Service) -> None:
    headers = any_service.bearer()
    error_of(any_service.client.get(WHOAMI), 401)
    assert any_service.client.get(WHOAMI, headers=headers).json()["local"] is False
    only = any_service.client.get("/api/v1/tokens", headers=headers).json()["tokens"][0]["id"]
    assert any_service.client.delete(f"/api/v1/tokens/{only}", headers=headers).status_code == 200
    error_of(any_service.client.get(WHOAMI), 401)  # the last one's end opens nothing
    error_of(any_service.client.get(WHOAMI, headers=headers), 401)


def test_a_token_is_kept_as_its_hash_shown_once_used_expired_and_revoked(any_service: Service) -> None:
    client, admin = any_service.client, any_service.bearer()
    made = client.post("/api/v1/tokens", json={"name": "ci", "role": "admin", "days": 1}, headers=admin).json()
    with any_service.farm.database.read() as session:
        row = session.scalars(select(TokenRecord).where(TokenRecord.name == "ci")).one()
        assert row.hash == hash_of(made["token"]) and made["token"] not in str(vars(row))
        assert caller_of(row, time.time()) is not None and caller_of(row, time.time() + 86401) is None
    assert client.get(WHOAMI, headers={"Authorization": f"Bearer {made['token']}"}).json()["name"] == "ci"
    listed = client.get("/api/v1/tokens", headers=admin)
    assert made["token"] not in listed.text and row.hash not in listed.text
    assert next(one for one in listed.json()["tokens"] if one["name"] == "ci")["last_used"] is not None
    assert error_of(
        client.post("/api/v1/tokens", json={"name": "ci", "role": "admin"}, headers=admin), 422
    )  # the name is taken
    assert client.delete(f"/api/v1/tokens/{made['id']}", headers=admin).status_code == 200
    error_of(client.get(WHOAMI, headers={"Authorization": f"Bearer {made['token']}"}), 401)
    actions = [one["action"] for one in client.get("/api/v1/audit", headers=admin).json()["entries"]]
    assert actions[:2] == ["token.revoke", "token.create"]


def test_each_role_may_do_what_it_should(service: Service) -> None:
    viewer, submitter, admin = (service.bearer(role, "default") for role in ("viewer", "submitter", "admin"))
    client = service.client
    run = service.submit(submitter)
    changes: list[tuple[str, str, Any]] = [
        ("POST", "/api/v1/verifications", {"files": {}, "models": ["m"], "boards": ["b"]}),
        ("POST", "/api/v1/suites", {"name": "s", "files": {}, "jobs": []}),
        ("POST", "/api/v1/triages", {"files": {}}),
        ("POST", "/api/v1/artifacts", None),
        ("POST", f"/api/v1/runs/{run}/cancel", {}),
        ("POST", f"/api/v1/runs/{run}/resume", None),
        ("PUT", "/api/v1/baselines", {"run": run}),
        ("DELETE", "/api/v1/baselines?suite=x", None),
    ]
    for method, path, body in changes:
        error_of(client.request(method, path, json=body, headers=viewer), 403)
        assert client.request(method, path, json=body, headers=submitter).status_code != 403
    for_admins: list[tuple[str, str, Any]] = [
        ("GET", "/api/v1/tokens", None),
        ("POST", "/api/v1/tokens", {"name": "n", "role": "admin"}),
        ("GET", "/api/v1/audit", None),
        ("GET", "/api/v1/webhooks", None),
        ("POST", "/api/v1/webhooks", {"url": "http://192.0.2.1/"}),
    ]
    for method, path, body in for_admins:
        error_of(client.request(method, path, json=body, headers=submitter), 403)
        assert client.request(method, path, json=body, headers=admin).status_code != 403
    for_all_projects: list[tuple[str, str, Any]] = [
        ("POST", "/api/v1/projects", {"name": "p"}),
        ("PATCH", "/api/v1/projects/default", {}),
        ("POST", "/api/v1/boards/j5-0/drain", {}),
        ("POST", "/api/v1/boards/j5-0/undrain", None),
        ("POST", "/api/v1/boards/j5-0/check", None),
        ("POST", "/api/v1/retention", None),
    ]
    for method, path, body in for_all_projects:
        error_of(client.request(method, path, json=body, headers=admin), 403)
        assert client.request(method, path, json=body, headers=service.bearer()).status_code in (200, 201)
    for path in (
        "/runs",
        f"/runs/{run}",
        f"/runs/{run}/jobs",
        "/boards",
        "/queue",
        "/history",
        "/events",
        "/artifacts",
    ):
        assert client.get(f"/api/v1{path}", headers=viewer).status_code == 200


def test_objects_of_another_project_are_hidden(any_service: Service) -> None:
    client, mine, theirs = (
        any_service.client,
        any_service.bearer("admin", "mine"),
        any_service.bearer("admin", "theirs"),
    )
    run = any_service.submit(theirs)
    any_service.ended(run, theirs)
    job = client.get(f"/api/v1/runs/{run}/jobs", headers=theirs).json()["jobs"][0]["id"]
    sha256 = any_service.put(b"theirs alone", theirs)
    token = client.get("/api/v1/tokens", headers=theirs).json()["tokens"][0]["id"]
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"/runs/{run}", None),
        ("GET", f"/runs/{run}/jobs", None),
        ("GET", f"/runs/{run}/differences?since={run}", None),
        ("POST", f"/runs/{run}/cancel", {}),
        ("POST", f"/runs/{run}/resume", None),
        ("PUT", "/baselines", {"run": run}),
        ("GET", f"/jobs/{job}", None),
        ("GET", f"/jobs/{job}/report", None),
        ("GET", f"/jobs/{job}/page", None),
        ("GET", f"/artifacts/{sha256}", None),
        ("HEAD", f"/artifacts/{sha256}", None),
        ("GET", f"/events?run={run}", None),
        ("GET", f"/events/stream?run={run}", None),
        ("DELETE", f"/tokens/{token}", None),
        ("GET", "/runs?project=theirs", None),
        ("POST", "/tokens", {"name": "n", "role": "viewer", "project": "theirs"}),
    ]
    for method, path, body in asked:
        reply = client.request(method, f"/api/v1{path}", json=body, headers=mine)
        assert reply.status_code == 404, (method, path, reply.text)
    body = {"files": {"m.onnx": sha256}, "models": ["m.onnx"], "boards": ["j5-0"]}
    assert "not here" in error_of(client.post("/api/v1/verifications", json=body, headers=mine), 422)["what"]
    for path in ("runs", "history", "events", "artifacts", "baselines", "webhooks"):
        reply = client.get(f"/api/v1/{path}", headers=mine)
        assert reply.status_code == 200 and run not in reply.text and sha256 not in reply.text
    assert [one["name"] for one in client.get("/api/v1/projects", headers=mine).json()["projects"]] == ["mine"]
    assert "theirs" not in client.get("/api/v1/audit", headers=mine).text
    everything = any_service.bearer()
    assert client.get(f"/api/v1/runs/{run}?project=theirs", headers=everything).status_code == 200
    error_of(client.get(f"/api/v1/runs/{run}", headers=everything), 404)  # of the project default


def test_a_board_hides_the_job_of_another_project(service: Service) -> None:
    from qverify_farm.store.boards import change_board

    theirs, mine = service.bearer("admin", "theirs"), service.bearer("viewer", "mine")
    run = service.submit(theirs)
    service.ended(run, theirs)
    job = service.client.get(f"/api/v1/runs/{run}/jobs", headers=theirs).json()["jobs"][0]["id"]
    why = "3 INCONCLUSIVE in a row; the last: secret_node differs"
    with service.farm.database.write() as session:
        change_board(session, "rv-0", time.time(), {"job": job, "reason": why, "state": "quarantined", "last_job": job})
    for path in ("boards", "boards/rv-0", "events"):
        text = service.client.get(f"/api/v1/{path}", headers=mine).text
        assert "3 INCONCLUSIVE in a row" in text and job not in text and "secret_node" not in text
    assert "secret_node" in service.client.get("/api/v1/boards/rv-0", headers=service.bearer()).text


def test_the_cookie_is_sent_by_own_pages_only(service: Service) -> None:
    secret = service.token()
    reply = service.client.post("/api/v1/session", json={"token": secret})
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    error_of(service.client.post("/api/v1/session", json={"token": "qv_" + "x" * 43}), 401)
    jar = {"Cookie": f"qverify_session={reply.cookies['qverify_session']}"}
    assert service.client.get(WHOAMI, headers=jar).status_code == 200
    assert service.client.post("/api/v1/retention", headers=jar).status_code == 200
    error_of(service.client.post("/api/v1/retention", headers={**jar, "Origin": "http://evil.example"}), 403)
    error_of(service.client.post("/api/v1/retention", headers={**jar, "Sec-Fetch-Site": "cross-site"}), 403)


def test_too_many_requests_or_wrong_tokens_get_retry_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm, "FAILURES_PER_S", 0.01)  # a slow machine must not refill the bucket
    with serving(str(tmp_path / "farm.db"), tmp_path, requests_per_s=0.01, burst=3) as service:
        replies = [service.client.get(WHOAMI) for _ in range(4)]
        assert [one.status_code for one in replies] == [200, 200, 200, 429]
        assert 1 <= int(replies[-1].headers["Retry-After"]) <= 100
        other = service.bearer()
        assert service.client.get(WHOAMI, headers=other).status_code == 200  # has a bucket of its own
        wrong = {"Authorization": "Bearer qv_" + "A" * 43}
        codes = [service.client.get(WHOAMI, headers=wrong).status_code for _ in range(25)]
        assert codes[0] == 401 and codes[-1] == 429
        assert service.client.get(WHOAMI, headers=other).status_code == 200  # who has a token is not locked out


def test_requests_without_a_token_do_not_count_as_wrong_tokens(tmp_path: Path) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path) as service:
        foreign = {"Origin": "http://evil.example"}
        assert {service.client.get(WHOAMI, headers=foreign).status_code for _ in range(40)} == {403}


def test_too_many_requests_without_a_token_lock_nobody_else_out(tmp_path: Path) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path, requests_per_s=0.5, burst=3) as service:
        foreign = {"Origin": "http://evil.example"}
        assert [service.client.get(WHOAMI, headers=foreign).status_code for _ in range(4)] == [403, 403, 403, 429]
        assert service.client.get(WHOAMI).status_code == 200  # the administrator of this host


def test_a_bucket_fills_again_and_forgets_the_oldest() -> None:
    limit = RateLimit(2.0, 2, max_keys=2)
    assert [limit.wait_s("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.5]
    assert limit.wait_s("a", 0.5) == 0.0
    assert limit.wait_s("a", -100.0) == 0.5  # a clock that went back gives nothing
    for key in ("b", "c"):
        assert limit.wait_s(key, 1.0) == 0.0
    assert len(limit._buckets) == 2


def test_a_scoped_token_needs_a_project_unless_it_is_an_administrators(service: Service) -> None:
    from qverify.errors import UsageError

    with service.farm.database.write() as session:
        for role, project in (("viewer", None), ("owner", "default"), ("viewer", "nowhere")):
            with pytest.raises(UsageError):
                create_token(session, "n", role, project, None, 0.0)
