"""The settings of the service and their defaults."""

from __future__ import annotations

from dataclasses import dataclass

MB, GB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of the service.

    Attributes:
        max_upload_bytes: The largest artifact.
        max_json_bytes: The largest body of any other request.
        header_s: The time for a request's headers.
        idle_s: The longest time between two pieces of a body.
        body_s: The time for a body that is not an upload.
        upload_bytes_per_s: Slower uploads are ended, after idle_s.
        requests_per_s: The rate of requests of one token, or of one address without a token.
        burst: The number of requests of one token, or of one address, at once.
        max_connections: The number of requests at a time.
        max_streams: The number of event streams at a time.
        behind_proxy: Whether requests come from a proxy on this host, so that a loopback address proves nothing.
        private_webhooks: Whether webhooks may go to loopback and private addresses.
        stop_s: The time for requests and attempts to end at a shutdown.
        heartbeat_s: The time between comments on a silent event stream.
        keep_events_days: How long events are kept.
        keep_audit_days: How long audit entries are kept.
        sweep_s: The time between two runs of the retention.
        triages: The number of triages that run at a time.
    """

    max_upload_bytes: int = 8 * GB
    max_json_bytes: int = 32 * MB
    header_s: float = 10.0
    idle_s: float = 30.0
    body_s: float = 60.0
    upload_bytes_per_s: int = 1024
    requests_per_s: float = 200.0
    burst: int = 400
    max_connections: int = 1000
    max_streams: int = 200
    behind_proxy: bool = False
    private_webhooks: bool = False
    stop_s: float = 20.0
    heartbeat_s: float = 15.0
    keep_events_days: float = 14.0
    keep_audit_days: float = 730.0
    sweep_s: float = 3600.0
    triages: int = 1
