"""qverify serve: opens the farm, prints the service's address, serves until a signal, and shuts down cleanly."""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import dataclass

from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify_agents.this_user import cache_folder

from qverify_farm.engines.open_engine import open_engine
from qverify_farm.service.access import is_loopback
from qverify_farm.service.app import create_app
from qverify_farm.service.farm import Farm, open_farm
from qverify_farm.service.json_log import log, start_log
from qverify_farm.service.server import check_tls, open_socket, server_of
from qverify_farm.service.settings import MB, ServiceSettings
from qverify_farm.service.tokens import has_tokens, usable_tokens
from qverify_farm.service.triage_engine import TriageEngine
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.database_artifacts import open_database_artifacts
from qverify_farm.ui.routes import add_pages

OWNER = "qverify serve"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of the command, under their names."""

    port: int
    host: str
    database: str
    artifacts: str
    workers: str | None
    workers_tls_ca: str | None
    workers_tls_cert: str | None
    workers_tls_key: str | None
    addresses: tuple[str, ...]
    tls_cert: str | None
    tls_key: str | None
    behind_proxy: bool
    allow_private_webhooks: bool
    max_upload: int
    rate: float
    triages: int
    stop_after: float
    quiet: bool

    def settings(self) -> ServiceSettings:
        return ServiceSettings(
            max_upload_bytes=self.max_upload * MB,
            requests_per_s=self.rate,
            burst=max(10, int(2 * self.rate)),
            behind_proxy=self.behind_proxy,
            private_webhooks=self.allow_private_webhooks,
            stop_s=self.stop_after,
            triages=self.triages,
        )


def serve(options: ServeOptions) -> int:
    """Serves until SIGTERM or SIGINT, then returns 0."""
    check_tls(options.tls_cert, options.tls_key)
    settings = options.settings()
    database = open_database(options.database, OWNER)
    try:
        check_exposure(database, options)
        listener = open_socket(options.host, options.port)
    except BaseException:
        database.close()
        raise
    with listener:
        farm = _open_farm(database, options, settings)
        try:
            return _run(farm, options, listener)
        finally:
            farm.close()


def check_exposure(database: Database, options: ServeOptions) -> None:
    """Raises UsageError if strangers could use the service. If it can be reached from other hosts, there must be a token, and
    the tokens must be sent encrypted."""
    if is_loopback(options.host) and not options.behind_proxy:
        return
    with database.read() as session:
        usable = usable_tokens(session, time.time())
    where = f"--host {options.host}" if not is_loopback(options.host) else "--behind-proxy"
    if not usable:
        raise UsageError(f"{where}: there is no token. Next: qverify serve token create NAME --role admin")
    if options.tls_cert is None and not options.behind_proxy:
        raise UsageError(
            f"{where}: tokens would be sent in the clear; wanted --tls-cert and --tls-key, or --behind-proxy"
        )


def _open_farm(database: Database, options: ServeOptions, settings: ServiceSettings) -> Farm:
    try:
        artifacts = open_database_artifacts(database, options.artifacts)
        tls = (options.workers_tls_ca, options.workers_tls_cert, options.workers_tls_key)
        engine = open_engine(options.workers, tls, addresses=options.addresses, tls_prefix="--workers-tls")
        lanes = TriageEngine(engine, artifacts, cache_folder() / "triages", settings.triages)
        return open_farm(database, artifacts, lanes, settings)
    except BaseException:
        database.close()
        raise


def _run(farm: Farm, options: ServeOptions, listener: socket.socket) -> int:
    start_log(requests=not options.quiet)
    app = create_app(farm)
    add_pages(app)

    def on_stop() -> None:
        farm.stopping = True
        farm.feed.close()

    server = server_of(app, farm.settings, on_stop, (options.tls_cert, options.tls_key))
    with farm.database.read() as session:
        is_open = not has_tokens(session) and not options.behind_proxy
    url = address_of(listener, options)
    token_note = "; no token is needed on this host" if is_open else ""
    say(f"qverify serve: {url}{token_note}")
    log("started", address=url, database=farm.database.url, artifacts=farm.artifacts.url)
    server.run(sockets=[listener])
    log("stopped", logging.INFO, signal=server.exit_signal)
    return 0


def address_of(listener: socket.socket, options: ServeOptions) -> str:
    """Returns the URL of the service."""
    port = listener.getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'https' if options.tls_cert else 'http'}://{host}:{port}"
