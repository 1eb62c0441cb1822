"""Opens the engine for a command: threads in processes beside this one, or workers behind a scheduler."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from qverify.errors import UsageError

from qverify_farm.engines.engine import JobEngine
from qverify_farm.engines.group import engine_beside
from qverify_farm.engines.reached_boards import check_addresses, reached_boards


def open_engine(
    workers: str | None = None,
    tls: tuple[str | None, str | None, str | None] = (None, None, None),
    boards: Sequence[str] | None = None,
    addresses: Sequence[str] = (),
    tls_prefix: str = "--tls",
) -> JobEngine:
    """Returns an engine.

    Args:
        workers: The address of a scheduler, or None for threads in processes beside this one. If nothing listens at an
            address of this host, a scheduler is started there and runs as long as the engine.
        tls: The values of --tls-ca, --tls-cert and --tls-key.
        boards: Board names of this host, as for reached_boards.
        addresses: Board addresses of this host, as for reached_boards.
        tls_prefix: How the options of TLS files begin in the caller's command.

    Raises UsageError for an address that strangers could use and for options that would have no effect, and BadAddress if the
    inventory cannot be read or has an impossible address.
    """
    if workers is None:
        if any(tls):
            raise UsageError(
                f"{tls_prefix}-ca, {tls_prefix}-cert and {tls_prefix}-key are for --workers tls://HOST:PORT"
            )
        reached = reached_boards(boards, addresses)
        check_addresses(reached)
        return engine_beside(reached)
    from qverify_farm.engines.dask import DaskEngine
    from qverify_farm.engines.dask_address import checked_address, tls_files
    from qverify_farm.engines.scheduler_process import SchedulerProcess, is_listening

    if addresses:
        raise UsageError("-b is a board of this host; with --workers, give it to `qverify worker`")
    files = tls_files(*tls, tls_prefix)
    address, scheduler = checked_address(workers, files, tls_prefix), None
    if not is_listening(address):
        with contextlib.suppress(UsageError):  # the address is another host's: the engine waits for a scheduler there
            scheduler = SchedulerProcess(address, files)
    return DaskEngine(address, files, scheduler)
