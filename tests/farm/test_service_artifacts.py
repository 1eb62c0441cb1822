"""Artifacts of the service: upload in pieces, download of ranges, limits, separate projects, removal of unreferenced ones."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_farm.service.routes.artifacts import safe_name
from qverify_farm.store import artifacts as store
from qverify_farm.store.tables import ArtifactRecord, ProjectArtifactRecord, SuiteRunRecord
from sqlalchemy import select, update

from tests.farm.service_app import Service, error_of, serving

DATA = bytes(range(256)) * 20
SHA = hashlib.sha256(DATA).hexdigest()
DAY = 86400.0


def pieces() -> Iterator[bytes]:
    yield from (DATA[at : at + 100] for at in range(0, len(DATA), 100))


def test_bytes_are_uploaded_in_pieces_and_downloaded(any_service: Service) -> None:
    client = any_service.client
    assert client.head(f"/api/v1/artifacts/{SHA}").status_code == 404
    reply = client.put(f"/api/v1/artifacts/{SHA}", content=pieces(), params={"name": "dir/dump.bin"})
    assert reply.json() == {"sha256": SHA, "size": len(DATA), "name": "dir/dump.bin", "kind": "file"}
    assert client.post("/api/v1/artifacts", content=pieces()).json()["sha256"] == SHA
    assert client.head(f"/api/v1/artifacts/{SHA}").headers["Content-Length"] == str(len(DATA))
    got = client.get(f"/api/v1/artifacts/{SHA}")
    assert got.content == DATA and got.headers["ETag"] == f'"{SHA}"'
    assert [one["sha256"] for one in client.get("/api/v1/artifacts").json()["artifacts"]] == [SHA]
    assert client.post("/api/v1/artifacts", content=b"").json()["size"] == 0


@pytest.mark.parametrize(
    ("asked", "status", "begin", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=5100-", 206, 5100, 5120),
        ("bytes=-20", 206, 5100, 5120),
        ("bytes=5000-999999", 206, 5000, 5120),
        ("bytes=0-1,5-6", 200, 0, 5120),
        ("lines=0-1", 200, 0, 5120),
        ("bytes=-", 200, 0, 5120),
        ("bytes=5120-", 416, 0, 0),
        ("bytes=9-8", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
    ],
)
def test_a_range_of_the_bytes(service: Service, asked: str, status: int, begin: int, end: int) -> None:
    service.put(DATA)
    reply = service.client.get(f"/api/v1/artifacts/{SHA}", headers={"Range": asked})
    assert reply.status_code == status
    if status != 416:
        assert reply.content == DATA[begin:end] and reply.headers["Content-Length"] == str(end - begin)
    if status == 206:
        assert reply.headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(DATA)}"


def test_an_upload_is_never_a_page(service: Service) -> None:
    html = b"<script>alert(1)</script>"
    name = 'x"\r\nSet-Cookie: a=b;.html'
    sha256 = hashlib.sha256(html).hexdigest()
    error_of(service.client.put(f"/api/v1/artifacts/{sha256}", content=html, params={"name": name}), 422)
    put = {"Content-Type": "text/html"}
    service.client.put(f"/api/v1/artifacts/{sha256}", content=html, params={"name": "../<b>.html"}, headers=put)
    reply = service.client.get(f"/api/v1/artifacts/{sha256}")
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"] == 'attachment; filename="_b_.html"'
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("..", "file"),
        ('a"b;c', "a_b_c"),
        ("卷积.onnx", "__.onnx"),
        ("a\\b", "b"),
        ("", "file"),
    ],
)
def test_a_file_name_contains_no_path_and_no_header(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_bytes_that_do_not_match_the_digest_are_refused(service: Service, tmp_path: Path) -> None:
    reply = service.client.put(f"/api/v1/artifacts/{'0' * 64}", content=DATA)
    assert SHA in error_of(reply, 409)["got"]
    assert list((tmp_path / "artifacts" / "parts").iterdir()) == []
    assert not list((tmp_path / "artifacts").glob("sha/*/*/*"))
    for wrong in ("../../etc/passwd", "%2e%2e%2fpasswd", "A" * 64, "0" * 63, "0" * 65):
        assert service.client.put(f"/api/v1/artifacts/{wrong}", content=DATA).status_code in (404, 405, 422)


def test_an_upload_is_bounded_by_its_limit_and_its_projects_quota(tmp_path: Path) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path, max_upload_bytes=6000, max_json_bytes=1000) as service:
        client = service.client
        assert "too large" in error_of(client.post("/api/v1/artifacts", content=b"x" * 6001), 413)["what"]
        assert error_of(client.post("/api/v1/artifacts", content=iter([b"x" * 3001] * 2)), 413)
        client.patch("/api/v1/projects/default", json={"quota_bytes": 7000})
        service.put(DATA)
        assert "quota" in error_of(client.post("/api/v1/artifacts", content=b"y" * 3000), 413)["what"]
        assert "quota" in error_of(client.post("/api/v1/artifacts", content=iter([b"y" * 1000] * 3)), 413)["what"]
        assert client.post("/api/v1/artifacts", content=b"y" * 1000).status_code == 201
        assert error_of(client.post("/api/v1/verifications", content=b"{" + b" " * 1000), 413)
        assert error_of(client.post("/api/v1/verifications", content=iter([b" " * 600] * 2)), 413)
        usage = client.get("/api/v1/projects").json()["projects"][0]
        assert (usage["bytes"], usage["quota_bytes"]) == (len(DATA) + 1000, 7000)
        assert not list((tmp_path / "artifacts" / "parts").iterdir())


def test_a_full_disk_is_reported_also_by_readiness(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEEP_FREE_BYTES", 1 << 62)
    assert "full" in error_of(service.client.post("/api/v1/artifacts", content=DATA), 507)["what"]
    ready = service.client.get("/ready")
    assert ready.status_code == 503 and not ready.json()["checks"]["artifacts"]["ok"]


def test_missing_bytes_are_reported(service: Service) -> None:
    service.put(DATA)
    service.farm.artifacts.delete(SHA)
    assert "no longer stored" in error_of(service.client.get(f"/api/v1/artifacts/{SHA}"), 409)["got"]
    assert service.client.head(f"/api/v1/artifacts/{SHA}").status_code == 404


@pytest.mark.parametrize("noticed", [True, False])
def test_damaged_bytes_can_be_uploaded_again(service: Service, noticed: bool) -> None:
    service.put(DATA)
    path = service.farm.artifacts.path_of(SHA)
    assert path is not None
    path.chmod(0o644)
    path.write_bytes(DATA[:-1] + b"?")
    if noticed:
        assert "damaged" in error_of(service.client.get(f"/api/v1/artifacts/{SHA}"), 409)["got"]
        assert service.client.head(f"/api/v1/artifacts/{SHA}").status_code == 404
    service.put(DATA)
    assert service.client.head(f"/api/v1/artifacts/{SHA}").status_code == 200
    assert service.client.get(f"/api/v1/artifacts/{SHA}").content == DATA


def test_the_retention_removes_old_unreferenced_data(any_service: Service) -> None:
    client, farm = any_service.client, any_service.farm
    unused, kept = any_service.put(b"unused"), any_service.put(b"used yesterday")
    old, baseline = any_service.submit(name="old"), any_service.submit(name="running on")
    for run in (old, baseline):
        any_service.ended(run)
    named = {file["sha256"] for file in client.get("/api/v1/artifacts").json()["artifacts"]} - {unused, kept}
    with farm.database.write() as session:
        session.execute(
            update(ProjectArtifactRecord)
            .where(ProjectArtifactRecord.sha256 != kept)
            .values(used=time.time() - 100 * DAY)
        )
        session.execute(update(SuiteRunRecord).where(SuiteRunRecord.id == old).values(ended=time.time() - 100 * DAY))
    swept = client.post("/api/v1/retention").json()
    assert (swept["runs"], swept["artifacts"], swept["bytes"]) == (1, 1, len(b"unused"))
    error_of(client.get(f"/api/v1/runs/{old}"), 404)
    left = {file["sha256"] for file in client.get("/api/v1/artifacts").json()["artifacts"]}
    assert left == {kept, *named} and not farm.artifacts.exists(unused)
    assert client.get(f"/api/v1/runs/{baseline}").status_code == 200
    assert any_service.put(b"unused") == unused  # it may come again


def test_another_project_keeps_the_same_bytes(any_service: Service) -> None:
    mine, theirs = any_service.bearer("submitter", "mine"), any_service.bearer("submitter", "theirs")
    sha256 = any_service.put(b"shared", mine)
    error_of(
        any_service.client.get(f"/api/v1/artifacts/{sha256}", headers=theirs), 404
    )  # to know a digest gives nothing
    any_service.put(b"shared", theirs)
    with any_service.farm.database.write() as session:
        owner = session.scalars(select(ProjectArtifactRecord)).first()
        assert owner is not None
        owner.used = 0.0
    any_service.client.post("/api/v1/retention", headers=any_service.bearer())
    codes = sorted(any_service.client.get(f"/api/v1/artifacts/{sha256}", headers=h).status_code for h in (mine, theirs))
    assert codes == [200, 404]


def test_bytes_without_a_row_are_removed_when_they_are_a_day_old(service: Service) -> None:
    import os

    stored = service.farm.artifacts.put_bytes(b"of a result that nobody recorded")
    service.client.post("/api/v1/retention")
    path = service.farm.artifacts.path_of(stored.sha256)
    assert path is not None and path.exists()
    os.utime(path, (0, 0))
    assert service.client.post("/api/v1/retention").json()["artifacts"] == 1
    assert not path.exists()
    with service.farm.database.read() as session:
        assert session.scalars(select(ArtifactRecord)).all() == []
