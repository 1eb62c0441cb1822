"""The metrics for Prometheus. Labels are verdicts, states, methods, routes and classes of status, so that their number is
bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from qverify_farm.dispatcher.dispatcher import Health
from qverify_farm.store.states import BUSY, FREE, INCONCLUSIVE, OFFLINE, PASSED, QUARANTINED

VERDICTS = (PASSED, "FAILED", INCONCLUSIVE)
BOARD_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600)
LATENCY = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)


class Metrics:
    """The service's metrics. health: returns the dispatcher's health. free_bytes: returns the free bytes of the artifact store."""

    def __init__(self, health: Callable[[], Health], free_bytes: Callable[[], int | None], version: str):
        self.registry = CollectorRegistry()
        self.registry.register(_LabCollector(health, free_bytes))
        self._jobs = Counter("qverify_jobs", "Jobs that got their verdict", ["verdict"], registry=self.registry)
        for verdict in VERDICTS:
            self._jobs.labels(verdict)
        self._board_seconds = Histogram(
            "qverify_board_seconds",
            "Seconds for which a job held boards",
            buckets=BOARD_SECONDS,
            registry=self.registry,
        )
        self._latency = Histogram(
            "qverify_http_seconds",
            "Seconds to answer a request",
            ["method", "route", "status"],
            buckets=LATENCY,
            registry=self.registry,
        )
        self._uploaded = Counter("qverify_uploaded_bytes", "Bytes of artifacts received", registry=self.registry)
        self.streams = Gauge("qverify_event_streams", "Event streams that are open", registry=self.registry)
        self._webhooks = Counter(
            "qverify_webhooks", "Webhooks by how their delivery ended", ["ending"], registry=self.registry
        )
        Gauge("qverify_info", "Version", ["version"], registry=self.registry).labels(version).set(1)

    def count_job(self, verdict: str | None, board_seconds: float) -> None:
        """Counts a job that is done."""
        self._jobs.labels(verdict if verdict in VERDICTS else INCONCLUSIVE).inc()
        self._board_seconds.observe(board_seconds)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request. route: the template of its route, or "" for an unknown address."""
        method_label = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
        self._latency.labels(method_label, route or "none", f"{status // 100}xx").observe(seconds)

    def count_upload(self, size: int) -> None:
        self._uploaded.inc(size)

    def count_webhook(self, delivered: bool) -> None:
        self._webhooks.labels("delivered" if delivered else "given up").inc()

    def text(self) -> bytes:
        """Returns the metrics in the exposition format."""
        return generate_latest(self.registry)


class _LabCollector(Collector):
    """Collects the dispatcher's gauges whenever Prometheus reads the metrics."""

    def __init__(self, health: Callable[[], Health], free_bytes: Callable[[], int | None]):
        self._health, self._free_bytes = health, free_bytes

    def collect(self) -> Iterable[GaugeMetricFamily]:
        health = self._health()
        yield GaugeMetricFamily("qverify_queue_jobs", "Jobs that wait for a board", value=health.waiting)
        yield GaugeMetricFamily("qverify_running_jobs", "Jobs that run", value=health.running)
        yield GaugeMetricFamily("qverify_unserved_jobs", "Jobs for which no board is usable", value=health.unserved)
        yield GaugeMetricFamily("qverify_dispatcher_up", "1 while jobs are dispatched", value=int(health.alive))
        boards = GaugeMetricFamily("qverify_boards", "Boards by state", labels=["state"])
        for state in (FREE, BUSY, QUARANTINED, OFFLINE):
            boards.add_metric([state], health.boards.get(state, 0))
        yield boards
        free = self._free_bytes()
        if free is not None:
            yield GaugeMetricFamily("qverify_artifacts_free_bytes", "Bytes left for artifacts", value=free)
