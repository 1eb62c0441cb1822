"""Holds a place of labgrid for the program at the other end of its standard input, and releases it when that input ends:
one request as a line of JSON, and lines of JSON as answers.

{"do": "hold", "coordinator", "identity", "records", "place" or "tags", "classes", "wait_s"} is answered by {"held",
"identity", "own", "resources"}, and at the end of the input by {"released"}. {"do": "sweep", "coordinator", "identity",
"records"} is answered by {"swept"}. What cannot be done is answered by {"error": KIND, "text"}."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from qverify_labgrid.records import Record, dead_records

CONNECT_S = 10.0
MOST_REQUEST = 1 << 16  # bytes


class Answers:
    """The standard output as it was at the start; from then on what labgrid prints goes to stderr."""

    def __init__(self) -> None:
        self._file = os.dup(1)
        os.dup2(2, 1)

    def write(self, **content: Any) -> None:
        """Writes one line; nothing where nobody reads it any more."""
        with contextlib.suppress(OSError):
            os.write(self._file, json.dumps(content).encode() + b"\n")


def request() -> dict[str, Any]:
    """Returns the first line of the input."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_REQUEST:
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)  # whoever asked has ended
        line += byte
    content: dict[str, Any] = json.loads(line)
    return content


def end_of_input() -> asyncio.Event:
    """Returns an event that is set when the input ends, or a signal asks this process to end."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        try:
            more = os.read(0, 4096)
        except OSError:
            more = b""
        if not more:
            loop.remove_reader(0)
            ended.set()

    loop.add_reader(0, read)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    return ended


async def hold(asked: dict[str, Any], answers: Answers) -> None:
    """Holds what was asked for until the input ends."""
    from qverify_labgrid.places import Places, Refused

    ended = end_of_input()
    places = await Places.connected(asked["coordinator"], asked["identity"], ended, CONNECT_S)
    record = Record(Path(asked["records"]), asked["coordinator"], places.identity)
    released = False
    try:
        with contextlib.suppress(Refused):  # what is left behind keeps nobody from another place
            await sweep(places, asked)
        held = await places.take(asked["place"], asked["tags"], asked["classes"], asked["wait_s"])
        if held is not None:
            answers.write(**held)
            await ended.wait()
    finally:
        released = await places.release()
        if released:
            record.remove()
        await places.close()
    answers.write(released=released)


async def sweep(places: Any, asked: dict[str, Any]) -> list[tuple[str, str]]:
    """Releases what dead holders of this host have left with this coordinator; returns places and identities."""
    released = []
    for record in dead_records(Path(asked["records"]), asked["coordinator"]):
        with record:
            released += [(place, record.identity) for place in await places.release_of(record.identity)]
            record.remove()
    return released


async def sweep_alone(asked: dict[str, Any], answers: Answers) -> None:
    from qverify_labgrid.places import Places

    places = await Places.connected(asked["coordinator"], asked["identity"], end_of_input(), CONNECT_S)
    try:
        answers.write(swept=await sweep(places, asked))
    finally:
        await places.close()


def main() -> int:
    """Answers one request; returns the exit status."""
    asked, answers = request(), Answers()
    try:
        from qverify_labgrid.places import Refused
    except ImportError as error:
        answers.write(error="missing", text=str(error))
        return 1
    try:
        asyncio.run((hold if asked["do"] == "hold" else sweep_alone)(asked, answers))
    except Refused as error:
        answers.write(error=error.kind, text=str(error))
        return 1
    return 0
