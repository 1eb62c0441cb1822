"""Operation of the service: health, metrics, the log, backup and restore, commands."""

from __future__ import annotations

import io
import json
import logging
import re
import tarfile
import time
from pathlib import Path

import pytest
import sqlalchemy
from qverify.cli.main import main
from qverify.errors import BadFileError, UsageError
from qverify_farm.cli.serve_work import ServeOptions, check_exposure
from qverify_farm.service import backup
from qverify_farm.service.backup import read_backup, write_backup
from qverify_farm.service.json_log import REQUEST_LOGGER, JsonLines
from qverify_farm.service.server import check_tls, open_socket
from qverify_farm.service.tokens import create_token
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.tables import Base

from tests.farm.service_app import Service, error_of, serving


def test_the_service_is_alive_and_ready(service: Service) -> None:
    assert service.client.get("/health").json()["alive"]
    ready = service.client.get("/ready")
    assert ready.status_code == 200 and set(ready.json()["checks"]) == {"database", "artifacts", "dispatcher", "engine"}
    service.farm.stopping = True
    assert service.client.get("/ready").json()["checks"]["dispatcher"] == {"ok": False, "why": "stopping"}
    assert service.client.get("/health").status_code == 200


def test_a_lost_database_is_reported_with_503(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise sqlalchemy.exc.OperationalError("SELECT secret", {}, Exception("no such host"))

    monkeypatch.setattr(service.farm.database, "read", lost)
    reply = service.client.get("/api/v1/runs")
    assert error_of(reply, 503)["what"] == "the database is not reached" and reply.headers["Retry-After"]
    assert "secret" not in reply.text
    assert service.client.get("/ready").json()["checks"]["database"]["ok"] is False


def test_metrics_for_prometheus(service: Service) -> None:
    service.ended(service.submit(boards=["j5-0", "j5-1"]))
    for path in ("/api/v1/runs", "/nowhere/1", "/nowhere/2", f"/api/v1/jobs/{'0' * 32}"):
        service.client.get(path)
    end = time.monotonic() + 10
    while 'qverify_jobs_total{verdict="PASSED"} 2.0' not in (text := service.client.get("/metrics").text):
        assert time.monotonic() < end, text
        time.sleep(0.01)
    assert "qverify_board_seconds_count 2.0" in text and 'qverify_boards{state="free"} 3.0' in text
    assert "qverify_queue_jobs 0.0" in text and "qverify_dispatcher_up 1.0" in text
    routes = set(re.findall(r'route="([^"]*)"', text))
    assert "/nowhere/1" not in routes and not any("0" * 32 in route for route in routes)
    assert 'qverify_http_seconds_count{method="GET",route="none",status="4xx"} 2.0' in text
    service.bearer()
    error_of(service.client.get("/metrics"), 401)


def test_each_request_is_a_line_of_the_log_without_its_query(service: Service) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    REQUEST_LOGGER.addHandler(handler)
    REQUEST_LOGGER.setLevel(logging.INFO)
    try:
        reply = service.client.get("/api/v1/runs?suite=private", headers={"Authorization": f"Bearer {service.token()}"})
    finally:
        REQUEST_LOGGER.removeHandler(handler)
        REQUEST_LOGGER.setLevel(logging.NOTSET)
    line = json.loads(stream.getvalue())
    assert line["request"] == reply.headers["X-Request-Id"] and line["status"] == 200
    assert (line["method"], line["path"]) == ("GET", "/api/v1/runs") and line["caller"].startswith("admin-all")
    assert "private" not in stream.getvalue() and "qv_" not in stream.getvalue()


def test_an_internal_error_is_one_line_and_its_traceback_is_in_the_log(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("qverify.service")
    logger.addHandler(handler)
    monkeypatch.setattr("qverify_farm.service.routes.boards.all_boards", lambda _: 1 / 0)
    try:
        reply = service.client.get("/api/v1/boards")
    finally:
        logger.removeHandler(handler)
    assert error_of(reply, 500)["what"] == "a bug of the service"
    line = json.loads(stream.getvalue().splitlines()[0])
    assert "ZeroDivisionError" in line["traceback"] and line["request"] == reply.headers["X-Request-Id"]


def test_a_backup_is_restored_into_either_kind_of_database(database_url: str, tmp_path: Path) -> None:
    with serving(database_url, tmp_path / "first") as service:
        run = service.submit(labels={"firmware": "1"})
        service.ended(run)
        admin = service.bearer()
        path = tmp_path / "backup.tar"
        counts = write_backup(service.farm.database, service.farm.artifacts, str(path))  # while it runs
        before = _rows(service.farm.database)
        events = service.client.get("/api/v1/events", headers=admin).json()["events"]
    assert (
        (counts.artifacts, counts.missing) == (2, 0)
        and counts.rows >= sum(map(len, before.values()))
        and path.stat().st_mode & 0o077 == 0
    )
    restored = open_database(str(tmp_path / "restored.db"), "a test")
    assert read_backup(restored, open_artifacts(str(tmp_path / "second" / "artifacts")), str(path)) == counts
    after = _rows(restored)
    assert {name: len(found) for name, found in after.items()} == {name: len(found) for name, found in before.items()}
    with pytest.raises(UsageError, match="it has rows"):
        read_backup(restored, open_artifacts(str(tmp_path / "second" / "artifacts")), str(path))
    restored.close()
    with serving(str(tmp_path / "restored.db"), tmp_path / "second") as service:
        assert service.client.get(f"/api/v1/runs/{run}", headers=admin).json()["labels"] == {"firmware": "1"}
        service.ended(service.submit(admin), admin)  # new rows get new numbers
        again = service.client.get("/api/v1/events", headers=admin).json()["events"]
        assert again[: len(events)] == events and len(again) > len(events)


def test_a_backup_is_restored_into_postgresql(postgres_server: object, migrated: str, tmp_path: Path) -> None:
    from tests.farm.postgres import Server

    assert isinstance(postgres_server, Server)
    with serving(str(tmp_path / "farm.db"), tmp_path) as service:
        service.ended(service.submit())
        write_backup(service.farm.database, None, str(tmp_path / "b.tar"))
    with postgres_server.database(migrated) as url:
        opened = open_database(url, "a test")
        read_backup(opened, open_artifacts(str(tmp_path / "other")), str(tmp_path / "b.tar"))
        opened.close()
        with serving(url, tmp_path) as service:
            service.ended(service.submit())


def _rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    with database.read() as session:
        return {
            table.name: [tuple(row) for row in session.execute(sqlalchemy.select(table))]
            for table in Base.metadata.sorted_tables
        }


def _tar(path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return str(path)


HEAD = json.dumps({"format": backup.FORMAT, "schema": backup.SCHEMA_REVISION, "qverify": "0"}).encode()
EXAMPLES = {
    "another file": {"x": b""},
    "no JSON": {"backup.json": b"{"},
    "another format": {"backup.json": HEAD.replace(b"backup/1", b"backup/9")},
    "a newer schema": {"backup.json": HEAD.replace(backup.SCHEMA_REVISION.encode(), b"9999")},
    "a path outside": {"backup.json": HEAD, "../../etc/passwd": b"x"},
    "an unknown table": {"backup.json": HEAD, "tables/alembic_version/0.json": b"[]"},
    "an unknown column": {"backup.json": HEAD, "tables/projects/0.json": b'[{"id":"a","evil":1}]'},
    "a row that refers to nothing": {"backup.json": HEAD, "tables/jobs/0.json": b'[{"id":"a"}]'},
    "other bytes than the digest": {"backup.json": HEAD, "sha/00/00/" + "0" * 64: b"x"},
}


@pytest.mark.parametrize("what", EXAMPLES)
def test_a_file_that_is_not_a_backup_is_one_line_and_leaves_the_database_empty(what: str, tmp_path: Path) -> None:
    from qverify.errors import QVerifyError

    database = open_database(str(tmp_path / "farm.db"), "a test")
    with pytest.raises((BadFileError, QVerifyError)) as error:
        read_backup(database, open_artifacts(str(tmp_path / "a")), _tar(tmp_path / "b.tar", EXAMPLES[what]))
    assert "\n" not in str(error.value)
    assert not any(_rows(database).values())
    database.close()


# its commands


def options(**given: object) -> ServeOptions:
    known = {name: None for name in ServeOptions.__slots__} | {"host": "127.0.0.1", "behind_proxy": False, "port": 0}
    return ServeOptions(**{**known, **given})  # type: ignore[arg-type]


def test_serving_other_hosts_needs_a_token_and_tls_or_a_proxy(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "farm.db"), "a test")
    check_exposure(database, options())
    check_exposure(database, options(host="::1"))
    for given in ({"host": "0.0.0.0"}, {"host": "0.0.0.0", "tls_cert": "c"}, {"behind_proxy": True}):
        with pytest.raises(UsageError, match=r"there is no token\. Next: qverify serve token create"):
            check_exposure(database, options(**given))
    with database.write() as session:
        create_token(session, "gone", "admin", None, -1.0, time.time())
    with pytest.raises(UsageError, match="there is no token"):
        check_exposure(database, options(host="0.0.0.0", tls_cert="c"))
    with database.write() as session:
        create_token(session, "a", "admin", None, None, time.time())
    with pytest.raises(UsageError, match="tokens would be sent in the clear"):
        check_exposure(database, options(host="192.0.2.1"))
    check_exposure(database, options(host="0.0.0.0", tls_cert="c"))
    check_exposure(database, options(host="0.0.0.0", behind_proxy=True))
    database.close()


def test_tokens_are_made_listed_and_revoked_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--database", str(tmp_path / "farm.db")]
    assert main(["serve", "token", "list", *at]) == 0
    assert "no tokens" in capsys.readouterr().out
    assert (
        main(["serve", "token", "create", "ci", "--role", "submitter", "--project", "vision", "--days", "3", *at]) == 0
    )
    out = capsys.readouterr()
    assert re.fullmatch(r"qv_[\w-]{43}\n", out.out) and "shown this once" in out.err
    assert main(["serve", "token", "list", *at]) == 0
    assert re.search(
        r"^ci: submitter of vision, valid, until \d{4}-\d\d-\d\d, never used$", capsys.readouterr().out, re.M
    )
    assert main(["serve", "token", "create", "ci", "--role", "viewer", *at]) == 2
    assert (
        capsys.readouterr().err == "qverify: token 'ci': there is one of this name; revoke it, or take another name\n"
    )
    assert main(["serve", "token", "revoke", "ci", *at]) == 0
    assert main(["serve", "token", "revoke", "ci", *at]) == 2
    assert main(["serve", "token", "create", "../x", "--role", "admin", *at]) == 2
    assert "wanted letters" in capsys.readouterr().err


def test_while_the_service_runs_the_command_line_changes_nothing(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--database", str(tmp_path / "farm.db")]
    assert main(["serve", "token", "create", "x", "--role", "admin", *at]) == 2
    assert "in use by a test" in capsys.readouterr().err
    assert main(["serve", "--port", "0", *at]) == 2  # a second service
    assert "in use by a test" in capsys.readouterr().err
    assert main(["serve", "token", "list", *at]) == 0
    assert main(["serve", "backup", str(tmp_path / "b.tar"), *at, "--artifacts", str(tmp_path / "artifacts")]) == 0
    assert "b.tar: " in capsys.readouterr().out


def test_backup_and_restore_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = ["--database", str(tmp_path / "a.db"), "--artifacts", str(tmp_path / "a")]
    second = ["--database", str(tmp_path / "b.db"), "--artifacts", str(tmp_path / "b")]
    main(["serve", "token", "create", "boss", "--role", "admin", *first[:2]])
    assert main(["serve", "backup", str(tmp_path / "x.tar"), *first]) == 0
    assert main(["serve", "restore", str(tmp_path / "x.tar"), *second]) == 0
    capsys.readouterr()
    assert main(["serve", "token", "list", *second[:2]]) == 0
    assert "boss: admin of all projects, valid" in capsys.readouterr().out
    assert main(["serve", "restore", str(tmp_path / "x.tar"), *second]) == 2
    assert main(["serve", "backup", str(tmp_path / "nowhere" / "x.tar"), *first]) == 2
    assert main(["serve", "restore", str(tmp_path / "missing.tar"), "--database", str(tmp_path / "c.db")]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_a_wrong_listening_address_is_one_line(tmp_path: Path) -> None:
    with open_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=f"--host 127.0.0.1 --port {port}: Address already in use"):
            open_socket("127.0.0.1", port)
    for host in ("192.0.2.1", "no such host.invalid"):
        with pytest.raises(UsageError, match="--host"):
            open_socket(host, 0)


def test_tls_files_are_checked_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    empty = str(tmp_path / "empty")
    for pair, words in (
        ((empty, None), "wanted both"),
        ((empty, "/no"), "no such file"),
        ((empty, empty), "--tls-cert"),
    ):
        with pytest.raises(UsageError, match=words):
            check_tls(*pair)
