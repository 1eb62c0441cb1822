"""Addresses of the farm's scheduler: without encryption on loopback only, otherwise TLS with certificates on both ends, since
anyone who can reach the scheduler can run programs on its workers."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qverify.errors import UsageError

LOOPBACK = "127.0.0.1"
TLS = "--tls"  # how the options of TLS files begin


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files. ca: the certificate of the authority that signed every certificate of the farm. cert, key: the
    certificate and the private key of this end."""

    ca: str
    cert: str
    key: str


def tls_files(ca: str | None, cert: str | None, key: str | None, prefix: str = TLS) -> TlsFiles | None:
    """Returns the files of --tls-ca, --tls-cert and --tls-key, or None if none is given. prefix: how these options begin. Raises
    UsageError if one of them is missing or cannot be read."""
    options = {f"{prefix}-ca": ca, f"{prefix}-cert": cert, f"{prefix}-key": key}
    if not any(options.values()):
        return None
    if missing := [name for name, path in options.items() if not path]:
        raise UsageError(f"{missing[0]} is missing: TLS takes {_tls_options(prefix)} together")
    for name, path in options.items():
        if not os.access(str(path), os.R_OK):
            raise UsageError(f"{name} {path}: cannot be read")
    return TlsFiles(str(ca), str(cert), str(key))


def _tls_options(prefix: str) -> str:
    return f"{prefix}-ca, {prefix}-cert and {prefix}-key"


def checked_address(address: str, tls: TlsFiles | None, prefix: str = TLS) -> str:
    """Returns the address as tcp://HOST:PORT or tls://HOST:PORT. prefix: as for tls_files. Raises UsageError for anything else,
    for tls:// without TLS files, and for tcp:// with them or to another host."""
    parts = re.fullmatch(r"(?:(tcp|tls)://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):(\d{1,5})", address)
    if parts is None or not 0 < int(parts[3]) < 65536:
        raise UsageError(f"{address[:100]!r}: wanted the scheduler's address, tcp://127.0.0.1:8786 or tls://HOST:PORT")
    scheme = parts[1] or ("tls" if tls is not None else "tcp")
    if scheme == "tls" and tls is None:
        raise UsageError(f"{address}: give {_tls_options(prefix)}, too")
    if scheme == "tcp" and tls is not None:
        raise UsageError(f"{address}: it is not encrypted, and certificates are options; wanted tls://")
    if scheme == "tcp" and not is_loopback(parts[2]):
        raise UsageError(
            f"{address}: who reaches a scheduler can run programs on its workers, so tcp:// is for {LOOPBACK} alone; "
            f"wanted tls://, with {_tls_options(prefix)}"
        )
    return f"{scheme}://{parts[2]}:{parts[3]}"


def is_loopback(host: str) -> bool:
    """Returns whether a host name or IP address means this host only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parts_of(address: str) -> tuple[str, int]:
    """Returns the host and the port of a checked address."""
    host, _, port = address.partition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def security_of(tls: TlsFiles | None) -> Any:
    """Returns distributed's Security object for these files, for every role of this process."""
    security = import_distributed().Security
    if tls is None:
        return security()
    ends = {
        f"tls_{end}_{part}": getattr(tls, part) for end in ("scheduler", "worker", "client") for part in ("cert", "key")
    }
    return security(tls_ca_file=tls.ca, require_encryption=True, **ends)


def describe_tls_failure(error: BaseException) -> str:
    """Returns why a TLS connection failed, if a certificate was refused, or ""."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not signed by the authority of --tls-ca ({cause.verify_message})"
        if alert := re.search(r"ALERT_([A-Z_]+)", str(cause)):
            why = alert[1].replace("_", " ").lower()
            return (
                f"it refuses this host's certificate, --tls-cert ({why}); its own --workers-tls-ca must have signed it"
            )
    return ""


def describe_failure(error: BaseException) -> str:
    """Returns why a connection failed, as one line, from the first cause that the operating system gave, if any."""
    causes = list(_causes(error))
    text = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), "")
    text = text or next((str(cause) for cause in causes if str(cause)), type(error).__name__)
    return " ".join(text.split())[:200]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def import_distributed() -> Any:
    """Returns the module distributed.

    Its log is hidden unless QVERIFY_DEBUG is set, since it prints a traceback for every closed connection, which the farm
    reports in one line. Its profiler is disabled: the profiler reads the frames of all threads, during which Python 3.11
    deadlocks if garbage is collected while a thread is being started.
    """
    import dask

    dask.config.set({"distributed.worker.profile.enabled": False})
    if not os.environ.get("QVERIFY_DEBUG"):
        names = ("distributed", "distributed.client", "bokeh", "tornado", "tornado.application")
        dask.config.set({"logging": dict.fromkeys(names, "critical")})
    import distributed

    return distributed
