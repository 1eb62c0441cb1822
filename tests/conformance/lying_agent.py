"""A board of this machine: the real agent behind a relay that may alter, drop, repeat and make up what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from qverify_agents.binaries import host_architecture, runtime_path

RELAY = """#!{python}
import os, struct, subprocess, sys, threading
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames, messages
agent = subprocess.Popen([{real!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
asked, runs = dict(), []  # requests by sequence number; sequence numbers of RUN and UNIT
kept = dict()  # what a lie keeps from one frame to the next

def node(index, iteration, digest, tensor):
    return struct.pack("<IIQQ", index, iteration, digest, 1) + messages.encode_text(tensor)

def done(payload, **changed):
    told = messages.read_done(payload)
    told = {{"status": told.status, "text": told.text, "arena": told.arena_bytes, "events": told.events, "kept": told.kept, **changed}}
    return struct.pack("<i", told["status"]) + messages.encode_text(told["text"]) + struct.pack("<QIB", told["arena"], told["events"], told["kept"])

def says(f):
    '''Frames (type, payload) in place of this one.'''
    request = asked.get(f.sequence)
    at, event = messages.read_node(f.payload) if f.type == frames.NODE else (-1, None)
    mark = int(event.digest, 16) if event else 0
    {lie}
    return [(f.type, f.payload)]

def towards():
    reader = frames.FrameReader()
    while data := os.read(0, 65536):
        reader.feed(data)
        while (f := reader.next()) is not None:
            asked[f.sequence] = f
            if f.type in (frames.RUN, frames.UNIT):
                runs.append(f.sequence)
        agent.stdin.write(data)
    agent.stdin.close()

threading.Thread(target=towards, daemon=True).start()
reader = frames.FrameReader()
while data := os.read(agent.stdout.fileno(), 65536):
    reader.feed(data)
    while (f := reader.next()) is not None:
        for kind, payload in says(f):
            whole = frames.encode_frame(kind, f.sequence, payload)
            while whole:
                whole = whole[os.write(1, whole):]
"""


def lying_board(lie: str, folder: Path, monkeypatch: pytest.MonkeyPatch, faulty: bool = False) -> None:
    """From now on `local`, or the runtime with faults, lies. lie: lines of Python in says(), given f, request, at (of the event), event and mark (its
    digest); they return frames or fall through."""
    real = runtime_path(host_architecture(), faulty=faulty)
    fake = folder / real.name
    path = [p for p in sys.path if p]
    text = lie.strip().replace("\n", "\n    ")
    fake.write_text(RELAY.format(python=sys.executable, path=path, real=str(real), lie=text or "pass"))
    fake.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(folder))
