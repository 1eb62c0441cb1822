"""What an administrator may set of the service, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

MB, GB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """max_upload_bytes: of one artifact. max_json_bytes: of any other body. header_s: for a request's headers. idle_s:
    between two pieces of a body. body_s: for a body that is no upload. upload_bytes_per_s: slower uploads end, after
    idle_s. requests_per_s, burst: of one token, or of one address without a token. max_connections: at a time.
    max_streams: event streams at a time, of one token a quarter. behind_proxy: requests come from a proxy on this host,
    so that loopback proves nothing. private_webhooks: webhooks may go to loopback and private addresses. stop_s: for
    requests and attempts to end at a shutdown. heartbeat_s: between comments on a silent event stream. keep_events_days,
    keep_audit_days: then they are removed. sweep_s: between two runs of the retention. worker_files: that jobs name,
    at most. triages: that run at a time."""

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
