"""Nothing is deleted by its age while the clock may be wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from qverify_farm.service.clock_watch import DOUBT_S, MAX_IDLE_S, ClockWatch, newest_row_time
from qverify_farm.service.retention import ClockDoubtError
from qverify_farm.store.tables import EventRecord, SuiteRunRecord
from sqlalchemy import update

from tests.farm.service_app import Service, error_of, serving

DAY_S = 86400.0


class Clocks:
    wall, monotonic = 1_800_000_000.0, 100.0

    def pass_s(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds

    def watch(self, newest: float | None = None) -> ClockWatch:
        return ClockWatch(lambda: self.wall, lambda: self.monotonic, newest)


@pytest.mark.parametrize("jump_s", [3600.0, 3650 * DAY_S, -3600.0, -3650 * DAY_S])
def test_a_clock_that_jumped_is_doubted_for_a_day_after_the_last_jump(jump_s: float) -> None:
    clocks = Clocks()
    watch = clocks.watch()
    assert watch.look() == ""
    clocks.wall += jump_s
    assert ("ahead" if jump_s > 0 else "back") in watch.look()
    clocks.pass_s(DOUBT_S - 60)
    clocks.wall -= jump_s  # put right
    assert watch.look()
    clocks.pass_s(DOUBT_S - 60)
    assert "nothing is deleted for 1.0 minutes" in watch.look()
    clocks.pass_s(61)
    assert watch.look() == ""


def test_a_clock_that_is_corrected_in_small_steps_is_not_doubted() -> None:
    clocks = Clocks()
    watch = clocks.watch(clocks.wall - 3600)
    for _ in range(100):
        clocks.pass_s(5)
        clocks.wall += 0.5
        assert watch.look() == ""


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(-3600.0, "behind the newest row"), (MAX_IDLE_S + 1, "the newest row of the database is 7.0 days old")],
)
def test_a_clock_far_from_the_newest_row_is_doubted(age_s: float, words: str) -> None:
    clocks = Clocks()
    watch = clocks.watch(clocks.wall - age_s)
    assert words in watch.look()
    clocks.pass_s(DOUBT_S + 1)
    assert watch.look() == ""


def test_retention_refuses_while_the_clock_is_doubted(service: Service) -> None:
    run = service.submit()
    service.ended(run)
    retention = service.app.state.retention
    assert abs((newest_row_time(service.farm.database) or 0.0) - time.time()) < 100
    jump_s = [0.0]
    object.__setattr__(retention, "clock", ClockWatch(lambda: time.time() + jump_s[0], time.monotonic, None))
    assert service.client.post("/api/v1/retention").status_code == 200
    jump_s[0] = 3650 * DAY_S
    error = error_of(service.client.post("/api/v1/retention"), 409)
    assert "the clock jumped 3650.0 days ahead" in error["got"] and "despite_clock" in error["next"]
    with pytest.raises(ClockDoubtError):
        retention.sweep(time.time() + jump_s[0])
    assert service.client.get(f"/api/v1/runs/{run}").status_code == 200
    assert service.client.post("/api/v1/retention", params={"despite_clock": "true"}).status_code == 200


def test_a_service_that_starts_long_after_its_newest_row_removes_nothing(tmp_path: Path) -> None:
    with serving(str(tmp_path / "farm.db"), tmp_path) as service:
        run = service.submit()
        service.ended(run)
        with service.farm.database.write() as session:
            session.execute(update(EventRecord).values(time=EventRecord.time - 100 * DAY_S))
            session.execute(
                update(SuiteRunRecord).values(
                    created=SuiteRunRecord.created - 100 * DAY_S, ended=SuiteRunRecord.ended - 100 * DAY_S
                )
            )
    with serving(str(tmp_path / "farm.db"), tmp_path) as service:
        assert "100.0 days old" in error_of(service.client.post("/api/v1/retention"), 409)["got"]
        assert service.client.get(f"/api/v1/runs/{run}").status_code == 200
        assert service.client.post("/api/v1/retention", params={"despite_clock": "true"}).json()["runs"] == 1
