"""python -m qverify_farm.engines.dask_scheduler: the process of the scheduler between an engine and its workers. It reads
{"address", "tls", "worker_ttl_s"} as a line of JSON from standard input, prints "listening" or the reason why it cannot listen,
and ends when standard input does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from qverify_agents.this_user import cache_folder

from qverify_farm.engines.dask_address import LOOPBACK, TlsFiles, import_distributed, parts_of, security_of
from qverify_farm.engines.dask_versions import own_versions


async def run_scheduler(address: str, tls: TlsFiles | None, worker_ttl_s: float) -> None:
    """Runs the scheduler at a checked address until it is cancelled. worker_ttl_s: a worker that is silent for so long
    counts as lost. Raises OSError if the address is in use."""
    import dask

    scheduler_of = import_distributed().Scheduler
    host, port = parts_of(address)
    folder = cache_folder() / "farm" / "scheduler"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings = {"distributed.scheduler.worker-ttl": f"{worker_ttl_s:g}s", "temporary-directory": str(folder)}
    with dask.config.set(settings):
        scheduler = scheduler_of(
            host=host,
            port=port,
            protocol=address.partition("://")[0],
            security=security_of(tls),
            dashboard=False,
            dashboard_address=f"{LOOPBACK}:0",
            allowed_failures=0,  # no retries: the dispatcher decides whether a lost attempt is repeated
        )
        scheduler.handlers["qverify_versions"] = _versions
        async with scheduler:
            print("listening", flush=True)
            await scheduler.finished()


async def _versions() -> dict[str, str]:
    return own_versions()


def end_with_input(finish: Callable[[], None] | None = None) -> None:
    """Ends this process when its standard input ends, so that it does not outlive the process that started it. finish: is
    called before."""

    def listen() -> None:
        while sys.stdin.buffer.readline():
            pass
        try:
            if finish is not None:
                finish()
        finally:
            exit_at_once(0)

    threading.Thread(target=listen, name="end-with-input", daemon=True).start()


def exit_at_once(status: int) -> None:
    """Ends this process and its child processes at once, without waiting for work that may hang."""
    import psutil

    sys.stdout.flush()
    sys.stderr.flush()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    os._exit(status)


def main() -> int:
    settings: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    end_with_input()
    try:
        tls = TlsFiles(**settings["tls"]) if settings["tls"] else None
        asyncio.run(run_scheduler(settings["address"], tls, float(settings["worker_ttl_s"])))
    except OSError as error:
        print(f"{settings['address']}: {error.strerror or error}", flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
