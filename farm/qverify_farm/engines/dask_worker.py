"""python -m qverify_farm.engines.dask_worker: a worker of a farm, in a process that cli/worker.py starts again when it ends. It
reads WorkerSettings as a line of JSON on standard input, and ends when standard input does."""

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
from pathlib import Path
from typing import Any

from qverify.errors import QVerifyError, UsageError
from qverify_agents.errors import LinkError

from qverify_farm.engines.dask_address import LOOPBACK, TlsFiles, import_distributed, is_loopback, parts_of, security_of
from qverify_farm.engines.dask_scheduler import end_with_input, leave
from qverify_farm.engines.dask_tasks import INFORMATION, resource, use
from qverify_farm.engines.dask_versions import difference, own_versions
from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.engines.kept_threads import share_interpreter
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.work.worker import JobWorker

REFUSED = 2  # the exit status that no other start changes
AGAIN_S, ANSWER_S = 1.0, 10.0
MORE_THREADS = 2
LOOK_S = 0.2
ALIVE_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """scheduler: a checked address. boards: names of the inventory, None for all. addresses: of boards besides. cache: the
    folder of the JobWorker, "" for the usual one."""

    scheduler: str
    boards: list[str] | None = None
    addresses: list[str] = field(default_factory=list)
    tls: dict[str, str] | None = None
    cache: str = ""


async def run_worker(settings: WorkerSettings, boards: Mapping[str, ReachedBoard]) -> None:
    """Runs a worker until the scheduler is gone, then ends the process. UsageError where the scheduler is none of qverify, or has other
    versions."""
    tls = TlsFiles(**settings.tls) if settings.tls else None
    await _check_versions(settings.scheduler, tls)
    worker = JobWorker(Path(settings.cache) if settings.cache else None)
    known = {"boards": [asdict(board) for board in boards.values()], "versions": own_versions()}
    host, _ = parts_of(settings.scheduler)
    dask_worker = import_distributed().Worker(
        settings.scheduler,
        nthreads=len(boards) + MORE_THREADS,
        name=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}",
        resources={resource(name): 1 for name in boards},
        startup_information={INFORMATION: lambda _: known},
        security=security_of(tls),
        protocol=settings.scheduler.partition("://")[0],
        host=LOOPBACK if tls is None else _own_address(host),
        dashboard=False,
        dashboard_address=f"{LOOPBACK}:0",
        memory_limit=0,
        death_timeout=ANSWER_S,
        local_directory=str(worker.folder / "dask"),
    )
    use(worker, dask_worker.log_event)
    await dask_worker
    told = float("-inf")
    while dask_worker.status.name in ("running", "paused"):
        if time.monotonic() - told >= ALIVE_S:
            told = time.monotonic()
            print("alive", flush=True)  # else whoever started this process ends it
        await asyncio.sleep(LOOK_S)
    worker.close()
    leave(0)  # not closed: that waits for jobs whose boards hang, and whoever ended the connection has given them up


async def _check_versions(address: str, tls: TlsFiles | None) -> None:
    """Waits for the scheduler. UsageError where it is none of qverify, or has other versions."""
    rpc = import_distributed().rpc
    waited = False
    while True:
        try:
            async with rpc(address, connection_args=security_of(tls).get_connection_args("worker")) as scheduler:
                theirs = await asyncio.wait_for(scheduler.qverify_versions(), ANSWER_S)
            break
        except (OSError, TimeoutError) as error:
            if not waited:
                print(
                    f"qverify worker: waiting for {address}: {' '.join(str(error).split())[:200]}",
                    file=sys.stderr,
                    flush=True,
                )
            waited = True
            print("alive", flush=True)
            await asyncio.sleep(AGAIN_S)
        except Exception as error:
            raise UsageError(f"{address}: no scheduler of qverify: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(theirs, dict) or "qverify" not in theirs:
        raise UsageError(f"{address}: no scheduler of qverify")
    if why := difference(theirs, f"the scheduler at {address}"):
        raise UsageError(why)


def _own_address(scheduler: str) -> str:
    """Returns the address of this host on the way to the scheduler."""
    if is_loopback(scheduler):
        return LOOPBACK
    family = socket.getaddrinfo(scheduler, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
        probe.connect(family[4])
        return str(probe.getsockname()[0])


def main() -> None:
    values: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    end_with_input()
    share_interpreter()
    settings = WorkerSettings(**values)
    try:
        boards = reached_boards(settings.boards, settings.addresses)
        if not boards:
            raise UsageError("no boards: boards.toml has none, and no address is given; add them, or give -b ADDRESS")
        asyncio.run(run_worker(settings, boards))
    except (QVerifyError, LinkError) as error:
        print(f"qverify worker: {error}", file=sys.stderr)
        leave(REFUSED)
    except Exception as error:
        print(f"qverify worker: {type(error).__name__}: {error}", file=sys.stderr)
        leave(1)


if __name__ == "__main__":
    main()
