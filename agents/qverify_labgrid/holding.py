"""Acquires a place of labgrid for the program at the other end of the standard input, and releases it when that input
ends. The program sends one request, a line of JSON; each answer is a line of JSON, too.

{"do": "hold", "coordinator", "identity", "records", "place" or "tags", "classes", "wait_s"} is answered by {"held",
"identity", "own", "resources"}, and at the end of the input by {"released"}. {"do": "sweep", "coordinator", "identity",
"records"} is answered by {"swept"}. A request that fails is answered by {"error": KIND, "text"}."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from qverify_labgrid.records import Record, iterate_dead_records

CONNECT_S = 10.0
MAX_REQUEST_BYTES = 1 << 16


class Answers:
    """Writes answers to the standard output. From its construction on, all that labgrid prints goes to standard
    error."""

    def __init__(self) -> None:
        self._file = os.dup(1)
        os.dup2(2, 1)

    def write(self, **content: Any) -> None:
        """Writes one answer. Does nothing if nobody reads it any longer."""
        with contextlib.suppress(OSError):
            os.write(self._file, json.dumps(content).encode() + b"\n")


def read_request() -> dict[str, Any]:
    """Returns the request, the first line of the input. Exits if the input ends before it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_REQUEST_BYTES:
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)  # the program that started this one has ended
        line += byte
    content: dict[str, Any] = json.loads(line)
    return content


def watch_input() -> asyncio.Event:
    """Returns an event that is set when the input ends or a signal requests this process to end."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        try:
            data = os.read(0, 4096)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(0)
            ended.set()

    loop.add_reader(0, read)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    return ended


async def answer_hold(request: dict[str, Any], answers: Answers) -> None:
    """Answers a request to hold a place: acquires it, keeps it until the input ends, and releases it."""
    from qverify_labgrid.places import Places, Refused

    ended = watch_input()
    places = await Places.connect(request["coordinator"], request["identity"], ended, CONNECT_S)
    record = Record(Path(request["records"]), request["coordinator"], places.identity)
    released = False
    try:
        with contextlib.suppress(Refused):  # a failure to release stale places must not prevent this one
            await release_stale(places, request)
        place = await places.take(request["place"], request["tags"], request["classes"], request["wait_s"])
        if place is not None:
            answers.write(**place)
            await ended.wait()
    finally:
        released = await places.release()
        if released:
            record.remove()
        await places.close()
    answers.write(released=released)


async def release_stale(places: Any, request: dict[str, Any]) -> list[tuple[str, str]]:
    """Releases the places that ended holders of this host left acquired at the coordinator. Returns (place, holder's
    identity) for each."""
    released = []
    for record in iterate_dead_records(Path(request["records"]), request["coordinator"]):
        with record:
            released += [(place, record.identity) for place in await places.release_all_of(record.identity)]
            record.remove()
    return released


async def answer_sweep(request: dict[str, Any], answers: Answers) -> None:
    """Answers a request to release stale places."""
    from qverify_labgrid.places import Places

    places = await Places.connect(request["coordinator"], request["identity"], watch_input(), CONNECT_S)
    try:
        answers.write(swept=await release_stale(places, request))
    finally:
        await places.close()


def main() -> int:
    """Answers one request; returns the exit status."""
    request, answers = read_request(), Answers()
    try:
        from qverify_labgrid.places import Refused
    except ImportError as error:
        answers.write(error="missing", text=str(error))
        return 1
    try:
        asyncio.run((answer_hold if request["do"] == "hold" else answer_sweep)(request, answers))
    except Refused as error:
        answers.write(error=error.kind, text=str(error))
        return 1
    return 0
