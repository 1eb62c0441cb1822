"""Answers the host's requests (PROTOCOL.md) until the host closes the connection."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import struct
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from qverify_worker import wire
from qverify_worker.board_lock import BoardLock
from qverify_worker.checksums import xxh64
from qverify_worker.contents import Contents
from qverify_worker.errors import BUSY, NOT_FOUND, PROTOCOL, UNSUPPORTED, RequestError
from qverify_worker.model import Array, Model, RuntimeSettings, decode_inputs, read_session
from qverify_worker.wire import EndOfInput, Frame, Reader, Wire

DIGESTS, EVERY_TENSOR, KEEPS = 1, 2, 8
MAX_KEPT = 512  # outputs that a run may keep
MAX_DATA_BYTES, MAX_HASHES, MAX_EVENTS, MAX_OPEN_MODELS = (1 << 20) - 16, 4096, 1 << 20, 4


@dataclass
class LastRun:
    """The last run. sequence: number of its request, None after HELLO. done: payload of its DONE. events: payloads of
    its NODEs. values: its outputs by name."""

    sequence: int | None = None
    done: bytes = b""
    events: list[bytes] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)


class AgentServer:
    """The agent's end of one connection. runtime_module: a module of runtimes/. node_limit_s: seconds after which a run
    that has not ended ends the process."""

    def __init__(
        self,
        link: Wire,
        runtime_module: ModuleType,
        settings: RuntimeSettings,
        contents: Contents,
        lock: BoardLock,
        node_limit_s: float,
    ):
        self._link, self._runtime_module, self._settings = link, runtime_module, settings
        self._contents, self._lock, self._node_limit_s = contents, lock, node_limit_s
        self._models: OrderedDict[str, Model] = OrderedDict()
        self._last = LastRun()
        self._lock_state = "none"
        self._handlers = {
            wire.HELLO: self._hello,
            wire.HAVE: self._have,
            wire.PUT: self._put,
            wire.RUN: self._run,
            wire.GET: self._get,
            wire.EVENTS: self._events,
            wire.PING: self._ping,
            wire.CANCEL: self._ping,
        }

    def serve(self) -> None:
        """Answers requests until BYE, or until the host closes the connection."""
        try:
            while (frame := self._link.next()).kind != wire.BYE:
                self._answer(frame)
            self._link.send(wire.BYE, frame.sequence, b"")
        except EndOfInput:
            return

    def _answer(self, frame: Frame) -> None:
        try:
            if frame.kind not in self._handlers:
                raise RequestError(PROTOCOL, f"message {frame.kind} is not answered by this agent")
            self._handlers[frame.kind](frame, Reader(frame.payload))
        except RequestError as error:
            self._fail(frame, error.status, str(error))
        except MemoryError:
            self._fail(frame, -5, "the board has too little memory")

    def _fail(self, frame: Frame, status: int, reason: str) -> None:
        self._link.send(wire.ERROR, frame.sequence, struct.pack("<i", status) + wire.encode_text(reason))

    def _hello(self, frame: Frame, payload: Reader) -> None:
        owner = payload.text() if frame.payload else ""
        self._lock_state, holder = self._lock.take(owner)
        self._last = LastRun()
        system = os.uname()
        hello = {
            "version": f"{self._runtime_module.NAME} {self._runtime_module.version()}",
            "protocol": 1,
            "arch": platform.machine(),
            "system": f"{system.sysname} {system.release}, Python {platform.python_version()}",
            "endian": sys.byteorder,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "features": self._runtime_module.features(self._settings),
            "packs": "",
            "instructions": "",
            "temperature_c": None,
            "frequency_mhz": None,
            "lock": self._lock_state,
            "holder": holder,
            "uptime_s": int(wire.monotonic_seconds()),
            "idle_s": 0,
            "keeps": 1,
        }
        self._link.send(wire.HELLO, frame.sequence, wire.encode_text(json.dumps(hello)))

    def _have(self, frame: Frame, payload: Reader) -> None:
        count = len(frame.payload) // 32
        if len(frame.payload) % 32 or count > MAX_HASHES:
            raise RequestError(PROTOCOL, f"HAVE: {len(frame.payload)} bytes, wanted at most {MAX_HASHES} hashes of 32")
        stored = [self._contents.stored_bytes(payload.hash()) for _ in range(count)]
        self._link.send(wire.HAVE, frame.sequence, struct.pack(f"<{count}Q", *stored))

    def _put(self, frame: Frame, payload: Reader) -> None:
        sha256, (total, offset) = payload.hash(), payload.take("QQ")
        piece = payload.bytes(len(frame.payload) - payload.at)
        stored = self._contents.put(sha256, total, offset, piece)
        self._link.send(wire.PUT, frame.sequence, struct.pack("<Q", stored))

    def _run(self, frame: Frame, payload: Reader) -> None:
        if self._last.sequence == frame.sequence:  # the host sent the request again because the answer took long
            self._link.send(wire.DONE, frame.sequence, self._last.done)
            return
        if self._lock_state == "busy" or not self._lock.is_held():
            raise RequestError(BUSY, "the board is in use")
        model, flags, repeat, inputs, names, kept = self._read_run(payload)
        wanted = model.outputs if flags & EVERY_TENSOR else [n for n in model.outputs if n in set(names)]
        if unknown := next((n for n in names if n not in model.outputs), None):
            raise RequestError(NOT_FOUND, f"{unknown}: the model has no output of this name")
        if repeat * len(wanted) > MAX_EVENTS:
            raise RequestError(PROTOCOL, f"{repeat} runs of {len(wanted)} tensors: more than {MAX_EVENTS} events")
        last = self._last = LastRun()
        self._lock.note(1)
        with _ProcessTimeLimit(self._node_limit_s):
            if wanted and not flags & DIGESTS:  # the purpose of a run without digests is to measure times
                for iteration, seconds in enumerate(model.time(inputs, wanted, repeat)):
                    self._send_events(frame, iteration, wanted, False, seconds)
                last.values = model.run(inputs, wanted)
            else:
                for iteration in range(repeat):
                    last.values = model.run(inputs, wanted)
                    self._send_events(frame, iteration, wanted, True, model.seconds)
        self._lock.note(0)
        self._keep_outputs({n: last.values[n] for n in kept if n in last.values})
        report = wire.encode_text(json.dumps(model.report()))
        last.done = struct.pack("<i", 0) + report + struct.pack("<QIB", 0, len(last.events), 1)
        last.sequence = frame.sequence
        self._link.send(wire.DONE, frame.sequence, last.done)

    def _keep_outputs(self, values: dict[str, Array]) -> None:
        """Puts the values into the store, so that a host that asks for their hash need not send them, where there is
        room."""
        for value in values.values():
            data = _encode_value(value)
            with contextlib.suppress(RequestError):
                self._contents.put(hashlib.sha256(data).hexdigest(), len(data), 0, data)

    def _read_run(self, payload: Reader) -> tuple[Model, int, int, dict[str, Array], list[str], list[str]]:
        sha256, (flags, repeat, count) = payload.hash(), payload.take("BIH")
        contents = [payload.hash() for _ in range(count)]
        (name_count,) = payload.take("H")
        names = [payload.text() for _ in range(name_count)]
        (injected_count,) = payload.take("H")
        if injected_count:
            raise RequestError(UNSUPPORTED, f"{self._runtime_module.NAME} cannot replace a tensor within a run")
        kept = [payload.text() for _ in range(payload.take("H")[0])] if flags & KEEPS else []
        payload.end()
        model = self._open_model(sha256)
        if len(kept) > MAX_KEPT or any(n not in model.outputs for n in kept):
            raise RequestError(
                NOT_FOUND, f"{len(kept)} tensors to keep; wanted at most {MAX_KEPT} outputs of the model"
            )
        inputs = decode_inputs(model, [self._contents.read(sha256_of_input) for sha256_of_input in contents])
        return model, flags, max(repeat, 1), inputs, names, kept

    def _open_model(self, sha256: str) -> Model:
        if sha256 not in self._models:
            data, settings = self._contents.read(sha256), self._settings
            if (session := read_session(data, settings)) is not None:
                data, settings = self._contents.read(session[0]), session[1]
            while len(self._models) >= MAX_OPEN_MODELS:
                self._models.popitem(last=False)
            with _ProcessTimeLimit(self._node_limit_s):
                self._models[sha256] = self._runtime_module.open_model(data, settings)
        self._models.move_to_end(sha256)
        return self._models[sha256]

    def _send_events(
        self, frame: Frame, iteration: int, wanted: list[str], digests: bool, seconds: dict[str, float]
    ) -> None:
        for name in wanted:
            digest = self._digest(name) if digests else 0
            nanoseconds = max(1, int(seconds[name] * 1e9)) if name in seconds else 0  # 0 if not known
            event = struct.pack("<IIQQ", len(self._last.events), iteration, digest, nanoseconds) + wire.encode_text(
                name
            )
            self._last.events.append(event)
            self._link.send(wire.NODE, frame.sequence, event)

    def _digest(self, name: str) -> int:
        value = self._last.values[name]
        if value.dtype.kind not in "biuf":
            raise RequestError(UNSUPPORTED, f"{name}: values of type {value.dtype} are not supported")
        return xxh64(_encode_value(value))

    def _get(self, frame: Frame, payload: Reader) -> None:
        name, (offset, length) = payload.text(), payload.take("QI")
        if name not in self._last.values:
            raise RequestError(NOT_FOUND, f"{name}: the last run left no value of this tensor")
        data = memoryview(_encode_value(self._last.values[name]))
        part = data[offset : offset + min(length, MAX_DATA_BYTES)]
        self._link.send(wire.DATA, frame.sequence, struct.pack("<QQ", len(data), offset) + part.tobytes())

    def _events(self, frame: Frame, payload: Reader) -> None:
        (first,) = payload.take("I")
        parts, size = [], 0
        for event in self._last.events[first:]:
            size += len(event)
            if size > wire.MAX_PAYLOAD_BYTES:
                break
            parts.append(event)
        self._link.send(wire.EVENTS, frame.sequence, b"".join(parts))

    def _ping(self, frame: Frame, payload: Reader) -> None:
        if len(frame.payload) > 64:
            raise RequestError(PROTOCOL, f"PING: {len(frame.payload)} bytes, wanted at most 64")
        self._lock.note(0)
        self._link.send(frame.kind, frame.sequence, frame.payload)


def _encode_value(value: Array) -> bytes:
    """Returns the bytes of the values, little-endian, in C order."""
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


class _ProcessTimeLimit:
    """A context that ends the process if its body takes longer than `seconds`; 0 for no limit. A library that hangs
    cannot be interrupted in any other way."""

    def __init__(self, seconds: float):
        self._timer = threading.Timer(seconds, self._end) if seconds > 0 else None
        self._seconds = seconds

    def _end(self) -> None:
        wire.log(f"the runtime did not answer within {self._seconds:g} s (--node_limit)")
        os._exit(3)

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
