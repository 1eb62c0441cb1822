"""Measures how fast `qverify serve` replies to 100 clients that request a run's state each second, and how much memory
it uses for an upload of 1 GB. The service is a separate process; the clients run in this process, on the same
processors."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qverify.session.other_jobs.demo import SOURCE, write_example

MB = 1 << 20


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench service", description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--upload", type=int, default=1024, help="MB")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="qverify-service-") as work:
        found = measure(Path(work), asked.clients, asked.seconds, asked.upload)
    reads = found["status_reads"]
    print(
        f"{asked.clients} clients, a status read a second each: {reads['count']} reads, p50 {reads['p50_ms']:.1f} ms, "
        f"p99 {reads['p99_ms']:.1f} ms, at most {reads['max_ms']:.1f} ms; {reads['failed']} failed"
    )
    upload = found["upload"]
    print(
        f"upload of {asked.upload} MB: {upload['mb_per_s']:.0f} MB/s; the service's memory {upload['rss_before_mb']:.0f} MB "
        f"before, {upload['peak_mb']:.0f} MB at its peak"
    )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    return 0


def measure(work: Path, clients: int, seconds: float, upload_mb: int) -> dict[str, Any]:
    """Returns the figures of a service over SQLite, with a token."""
    with service(work) as (port, pid, token):
        run = submit(port, token, work / "example")
        reads = asyncio.run(read_states(port, token, run, clients, seconds))
        return {"status_reads": reads, "upload": upload(port, pid, token, upload_mb)}


@contextlib.contextmanager
def service(work: Path) -> Iterator[tuple[int, int, str]]:
    """Yields port, process id and a token of a service with one board."""
    at = ["--database", str(work / "farm.db")]
    words = [sys.executable, "-m", "qverify", "serve"]
    around = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(work / "cache")}
    token = subprocess.run(
        [*words, "token", "create", "bench", "--role", "submitter", *at],
        env=around,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    options = ["--port", "0", "-b", "local", "--quiet", "--artifacts", str(work / "artifacts")]
    with open(work / "log", "wb") as log:
        process = subprocess.Popen([*words, *options, *at], env=around, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r":(\d+)", process.stdout.readline().partition("//")[2])
        if match is None:
            raise RuntimeError((work / "log").read_text())
        yield int(match.group(1)), process.pid, token.stdout.strip()
    finally:
        process.terminate()
        process.wait(60)


def ask(port: int, token: str, method: str, path: str, body: Any = None, size: int = 0) -> Any:
    """Returns the JSON of the reply to a request. body: bytes, pieces of `size` bytes in all, or plain values."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Authorization": f"Bearer {token}"}
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    if size:
        headers["Content-Length"] = str(size)
    connection.request(method, f"/api/v1{path}", body, headers)
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    if reply.status >= 300:
        raise RuntimeError(f"{method} {path}: {reply.status} {data[:300]!r}")
    return json.loads(data)


def submit(port: int, token: str, folder: Path) -> str:
    """Runs the packaged example to its end and returns the run's id."""
    write_example(str(folder))
    model = (folder / SOURCE).read_bytes()
    sha256 = hashlib.sha256(model).hexdigest()
    ask(port, token, "PUT", f"/artifacts/{sha256}", model)
    body = {"files": {"m.onnx": sha256}, "models": ["m.onnx"], "boards": ["local"]}
    run = str(ask(port, token, "POST", "/verifications", body)["id"])
    while ask(port, token, "GET", f"/runs/{run}")["state"] == "running":
        time.sleep(0.1)
    return run


async def read_states(port: int, token: str, run: str, clients: int, seconds: float) -> dict[str, float]:
    """Returns the times of reads. Each client has its own connection and sends a request each second, at its own
    offset."""
    request = f"GET /api/v1/runs/{run} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    times, failed = list[float](), 0

    async def client(number: int) -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(number / clients)
        begin = time.perf_counter()
        for turn in range(int(seconds)):
            await asyncio.sleep(max(0.0, begin + turn - time.perf_counter()))
            start = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            await reader.readexactly(int(length.group(1)) if length else 0)
            times.append(time.perf_counter() - start)
            failed += b" 200 " not in head.partition(b"\r\n")[0]
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    ordered = sorted(seconds * 1000 for seconds in times)
    of = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    figures = {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in of.items()}
    return {"count": len(ordered), "failed": failed, **figures}


def upload(port: int, pid: int, token: str, size_mb: int) -> dict[str, float]:
    """Returns speed and memory of one upload."""
    piece = os.urandom(MB)
    digest = hashlib.sha256()
    for _ in range(size_mb):
        digest.update(piece)
    before = memory(pid, "VmRSS")
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    begin = time.perf_counter()
    put = ask(port, token, "PUT", f"/artifacts/{digest.hexdigest()}", iter([piece] * size_mb), size=size_mb * MB)
    seconds = time.perf_counter() - begin
    assert put["size"] == size_mb * MB
    return {"mb_per_s": size_mb / seconds, "rss_before_mb": before, "peak_mb": memory(pid, "VmHWM")}


def memory(pid: int, key: str) -> float:
    """Returns a memory figure of the process in MB. key: its name in /proc/PID/status."""
    match = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match.group(1)) / 1024
