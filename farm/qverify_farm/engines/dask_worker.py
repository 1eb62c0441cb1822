"""python -m qverify_farm.engines.dask_worker: the process of a farm's worker, which cli/worker.py starts again when it ends.
It reads WorkerSettings as a line of JSON from standard input, and ends when standard input does."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from qverify.errors import QVerifyError, UsageError
from qverify_agents.errors import LinkError

from qverify_farm.engines.dask_address import (
    LOOPBACK,
    TlsFiles,
    describe_failure,
    describe_tls_failure,
    import_distributed,
    is_loopback,
    parts_of,
    security_of,
)
from qverify_farm.engines.dask_scheduler import end_with_input, exit_at_once
from qverify_farm.engines.dask_tasks import INFORMATION, resource_of, set_worker, stop_tasks
from qverify_farm.engines.dask_versions import describe_difference, own_versions
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.engines.kept_threads import share_interpreter
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.work.worker import JobWorker

REFUSED_STATUS = 2  # exit status of an error that another start would repeat
RETRY_PAUSE_S, ANSWER_S = 1.0, 10.0
STOP_S = 8.0  # for running jobs to end when the worker is stopped
SPARE_THREADS = 2  # beyond one thread for each board
POLL_S = 0.2
ALIVE_INTERVAL_S = 5.0  # seconds between the lines that show that the process is alive


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker process.

    Attributes:
        scheduler: The checked address of the scheduler.
        boards: Board names of the inventory, or None for all.
        addresses: Addresses of further boards.
        tls: The fields of TlsFiles, or None.
        cache: The cache folder of the JobWorker, or "" for the default.
    """

    scheduler: str
    boards: list[str] | None = None
    addresses: list[str] = field(default_factory=list)
    tls: dict[str, str] | None = None
    cache: str = ""


async def run_worker(settings: WorkerSettings, boards: Mapping[str, ReachedBoard]) -> None:
    """Runs a worker until the scheduler is gone, then ends the process. Raises UsageError if the scheduler does not belong
    to qverify or has other versions."""
    tls = TlsFiles(**settings.tls) if settings.tls else None
    await _check_versions(settings.scheduler, tls)
    worker = JobWorker(Path(settings.cache) if settings.cache else None)
    information = {"boards": [asdict(board) for board in boards.values()], "versions": own_versions()}
    host, _ = parts_of(settings.scheduler)
    dask_worker = import_distributed().Worker(
        settings.scheduler,
        nthreads=len(boards) + SPARE_THREADS,
        name=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}",
        resources={resource_of(name): 1 for name in boards},
        startup_information={INFORMATION: lambda _: information},
        security=security_of(tls),
        protocol=settings.scheduler.partition("://")[0],
        host=LOOPBACK if tls is None else _own_address(host),
        dashboard=False,
        dashboard_address=f"{LOOPBACK}:0",
        memory_limit=0,
        death_timeout=ANSWER_S,
        local_directory=str(worker.folder / "dask"),
    )
    set_worker(worker, dask_worker.log_event)
    await dask_worker
    last_sign = float("-inf")
    while dask_worker.status.name in ("running", "paused"):
        if time.monotonic() - last_sign >= ALIVE_INTERVAL_S:
            last_sign = time.monotonic()
            print("alive", flush=True)  # without this line, the parent process ends this one
        await asyncio.sleep(POLL_S)
    worker.close()
    exit_at_once(0)  # closing dask_worker would wait for jobs whose boards hang; the engine has given them up already


async def _check_versions(address: str, tls: TlsFiles | None) -> None:
    """Waits for the scheduler. Raises UsageError if it does not belong to qverify or has other versions, and if one end refuses
    the other's certificate."""
    rpc = import_distributed().rpc
    waited = False
    while True:
        try:
            async with rpc(address, connection_args=security_of(tls).get_connection_args("worker")) as scheduler:
                theirs = await asyncio.wait_for(scheduler.qverify_versions(), ANSWER_S)
            break
        except (OSError, TimeoutError) as error:
            if why := describe_tls_failure(error):
                raise UsageError(f"{address}: {why}") from error
            if not waited:
                print(f"qverify worker: waiting for {address}: {describe_failure(error)}", file=sys.stderr, flush=True)
            waited = True
            print("alive", flush=True)
            await asyncio.sleep(RETRY_PAUSE_S)
        except Exception as error:
            raise UsageError(f"{address}: no scheduler of qverify: {describe_failure(error)}") from error
    if not isinstance(theirs, dict) or "qverify" not in theirs:
        raise UsageError(f"{address}: no scheduler of qverify")
    if why := describe_difference(theirs, f"the scheduler at {address}"):
        raise UsageError(why)


def _own_address(scheduler: str) -> str:
    """Returns the address of the network interface over which this host reaches the scheduler."""
    if is_loopback(scheduler):
        return LOOPBACK
    family = socket.getaddrinfo(scheduler, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
        probe.connect(family[4])
        return str(probe.getsockname()[0])


def main() -> None:
    values: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    end_with_input(partial(stop_tasks, STOP_S))
    share_interpreter()
    settings = WorkerSettings(**values)
    try:
        boards = reached_boards(settings.boards, settings.addresses)
        if not boards:
            raise UsageError("no boards: boards.toml has none, and no address is given; add them, or give -b ADDRESS")
        asyncio.run(run_worker(settings, boards))
    except (QVerifyError, LinkError) as error:
        print(f"qverify worker: {error}", file=sys.stderr)
        exit_at_once(REFUSED_STATUS)
    except Exception as error:
        print(f"qverify worker: {type(error).__name__}: {error}", file=sys.stderr)
        exit_at_once(1)


if __name__ == "__main__":
    main()
