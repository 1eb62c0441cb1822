"""Scheduling: fairness, priority, age, jobs with few boards first, no starvation; quarantine; a lab in virtual time."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest
from qverify_farm.scheduling.board_filter import BoardFilter, is_tags
from qverify_farm.scheduling.board_health import BoardHealth
from qverify_farm.scheduling.queue import QueuedJob
from qverify_farm.scheduling.scheduler import Scheduler
from qverify_farm.scheduling.simulate import SimulatedLab, Simulation, simulate

J5 = BoardFilter.of(("soc=j5",))


def lab(**boards: str) -> Scheduler:
    scheduler = Scheduler()
    for name, soc in boards.items():
        scheduler.set_board(name, {"soc": soc}, True)
    return scheduler


def run_all(scheduler: Scheduler, seconds: float = 1.0) -> list[tuple[str, str]]:
    """Runs every job for these seconds, and returns jobs and boards in the order in which they began."""
    began, now = [], 0.0
    while begun := scheduler.assign(now):
        began += [(job.id, board) for job, board in begun]
        for job, _ in begun:
            scheduler.release(job.id, seconds)
        now += seconds
    return began


def test_a_filter_fits_names_and_all_tags_of_one_set() -> None:
    wanted = BoardFilter.of(("desk", "soc=j5, fw=1"))
    assert wanted == BoardFilter.of(("fw=1,soc=j5", "desk"))
    assert wanted.fits("desk", {}) and wanted.fits("x", {"soc": "j5", "fw": "1", "more": ""})
    assert not wanted.fits("x", {"soc": "j5"}) and not wanted.fits("x", {"fw": "1", "soc": "j6"})


@pytest.mark.parametrize(
    ("word", "tags"), [("soc=j5", True), ("desk", False), ("local?memory=1M", False), ("ssh://h?a=b", False)]
)
def test_an_address_is_not_taken_for_tags(word: str, tags: bool) -> None:
    assert is_tags(word) is tags


def test_each_board_holds_one_job_and_each_job_runs_once() -> None:
    scheduler = lab(a="j5", b="j5", c="rv")
    for number in range(5):
        scheduler.add(QueuedJob(f"j{number}", "ann", J5, number=number))
    assert [(job.id, board) for job, board in scheduler.assign(0.0)] == [("j0", "a"), ("j1", "b")]
    assert scheduler.assign(0.0) == [] and scheduler.running() == {"j0": "a", "j1": "b"}
    scheduler.release("j1", 1.0)
    assert [(job.id, board) for job, board in scheduler.assign(0.0)] == [("j2", "b")] and len(scheduler.queue) == 2


def test_order_of_one_submitter_is_priority_age_fewer_boards_place() -> None:
    scheduler = lab(a="j5")
    scheduler.set_board("b", {"soc": "j5"}, False)
    named = BoardFilter.of(("a",))
    for name, wanted, priority, age, number in [
        ("place", J5, 0, 1.0, 9),
        ("young", J5, 0, 2.0, 0),
        ("narrow", named, 0, 1.0, 99),
        ("first", J5, 0, 1.0, 1),
        ("urgent", J5, 5, 3.0, 0),
    ]:
        scheduler.add(QueuedJob(name, "ann", wanted, priority, age, number))
    assert [job for job, _ in run_all(scheduler)] == ["urgent", "narrow", "first", "place", "young"]


def test_submitters_share_board_time_not_numbers_of_jobs() -> None:
    scheduler, used = lab(a="j5"), Counter[str]()
    for number in range(60):
        scheduler.add(QueuedJob(f"ann{number}", "ann", J5, number=number))
        scheduler.add(QueuedJob(f"bob{number}", "bob", J5, priority=9, number=number))
    for _ in range(60):
        ((job, _),) = scheduler.assign(0.0)
        seconds = 4.0 if job.submitter == "ann" else 1.0
        used[job.submitter] += int(seconds)
        scheduler.release(job.id, seconds)
    assert abs(used["ann"] - used["bob"]) <= 4


def test_a_late_submitter_neither_waits_for_ever_nor_takes_all() -> None:
    scheduler = lab(a="j5")
    for number in range(100):
        scheduler.add(QueuedJob(f"ann{number:03d}", "ann", J5, number=number))
    for _ in range(50):
        ((job, _),) = scheduler.assign(0.0)
        scheduler.release(job.id, 1.0)
    for number in range(10):
        scheduler.add(QueuedJob(f"bob{number}", "bob", J5, age=9.0, number=number))
    order = [job[:3] for job, _ in run_all(scheduler)]
    assert set(order[:2]) == {"ann", "bob"} and order[:20].count("bob") in (9, 10)


def test_use_of_one_kind_of_board_does_not_count_on_another() -> None:
    """If use were counted for all boards together, ann would not get the only rv board while bob has jobs for it."""
    scheduler = lab(**{f"j{n}": "j5" for n in range(9)}, rv="rv")
    rv = BoardFilter.of(("soc=rv",))
    for number in range(900):
        scheduler.add(QueuedJob(f"a{number}", "ann", J5, number=number))
    for number in range(100):
        scheduler.add(QueuedJob(f"b{number}", "bob", rv, number=number))
        if number < 50:
            scheduler.add(QueuedJob(f"r{number}", "ann", rv, number=number))
    began = [job[0] for job, board in run_all(scheduler) if board == "rv"]
    assert began[:20].count("r") in (9, 10, 11)


def test_a_retry_goes_to_another_board_while_one_fits() -> None:
    scheduler = lab(a="j5", b="j5")
    scheduler.add(QueuedJob("again", "ann", J5, tried=frozenset({"a"})))
    assert scheduler.assign(0.0)[0][1] == "b"
    scheduler.release("again", 1.0)
    scheduler.set_board("b", {"soc": "j5"}, False)
    scheduler.add(QueuedJob("again", "ann", J5, tried=frozenset({"a"})))
    assert scheduler.assign(0.0)[0][1] == "a"


def test_boards_come_go_rest_and_change_their_tags() -> None:
    scheduler = lab(a="rv")
    scheduler.add(QueuedJob("j", "ann", J5))
    assert scheduler.assign(0.0) == []
    scheduler.set_board("a", {"soc": "j5"}, True)
    scheduler.rest("a", 5.0)
    assert scheduler.assign(4.9) == [] and scheduler.fitting(J5) == {"a"}
    assert [board for _, board in scheduler.assign(5.0)] == ["a"]
    scheduler.release("j", 0.0)
    scheduler.remove_board("a")
    scheduler.add(QueuedJob("k", "ann", J5))
    assert scheduler.assign(9.0) == [] and scheduler.fitting(J5) == set()
    scheduler.remove("k")
    scheduler.remove("k")
    assert len(scheduler.queue) == 0


def test_a_queued_job_takes_little_memory() -> None:
    scheduler = lab(a="j5")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(10_000):
        scheduler.add(QueuedJob(f"{number:032x}", "ann", J5, 0, 1.0, number))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 10_000 < 5_000


def test_the_queue_is_consistent_after_any_order_of_adding_and_removing() -> None:
    draw, scheduler = random.Random(3), lab(a="j5")
    alive: set[str] = set()
    for number in range(300):
        job = QueuedJob(
            f"j{number}",
            draw.choice("ab"),
            draw.choice([J5, BoardFilter.of(("a",))]),
            draw.randrange(3),
            draw.random(),
            number,
        )
        scheduler.add(job)
        alive.add(job.id)
        if draw.random() < 0.4:
            gone = draw.choice(sorted(alive))
            scheduler.remove(gone)
            alive.discard(gone)
    assert len(scheduler.queue) == len(alive) == sum(n for _, _, n in scheduler.queue.counted())
    assert {job for job, _ in run_all(scheduler)} == alive


def test_three_spoiled_results_quarantine_a_board_and_checks_back_off() -> None:
    health = BoardHealth()
    assert [health.after_result("INCONCLUSIVE", True) for _ in range(2)] == [False, False]
    assert not health.after_result("INCONCLUSIVE", False) and not health.after_result("FAILED", False)
    assert [health.after_result("INCONCLUSIVE", True) for _ in range(3)] == [False, False, True]
    waits = []
    for _ in range(8):
        waits.append(health.seconds_to_check())
        health.after_check("no HELLO")
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600] and health.quarantined
    health.after_check("")
    assert not health.quarantined and health.seconds_to_check() == 60
    assert [health.after_busy() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert not any(BoardHealth().after_result("INCONCLUSIVE", True, 0) for _ in range(9))


def test_a_lab_of_several_types_is_busy_fair_and_starves_no_type() -> None:
    """Runs the real scheduler in virtual time; scripts/bench farm --simulate does the same with 1,000 boards."""
    small = SimulatedLab({"j5": 20, "rv": 8, "s390x": 1}, hosts=4)
    found = simulate(small, jobs_per_board=40)
    assert found.busy >= 0.9 and found.done == {"j5": 800, "rv": 320, "s390x": 40}
    for shares in found.shares.values():
        assert set(shares) == {"ann", "bob"} and abs(shares["ann"] - 0.5) < 0.1
    assert max(found.longest_wait_s.values()) <= 1.0 and found == simulate(small, jobs_per_board=40)


def test_the_simulation_counts_idle_time() -> None:
    simulation = Simulation(SimulatedLab({"j5": 2}, hosts=1, dispatch_s=1.0, job_s=(1.0, 1.0), host_s=0.0))
    simulation.submit("ann", "j5", 40)
    assert 0.45 < simulation.run().busy < 0.55
