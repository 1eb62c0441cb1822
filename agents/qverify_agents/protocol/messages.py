"""Encodes values as payloads of PROTOCOL.md and decodes them, checking every length."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qverify_agents.errors import AgentError, Contradiction, ProtocolError
from qverify_agents.printable import one_line

DIGESTS, EVERY_TENSOR, BATCHED = 1, 2, 4
NOT_FOUND, DAMAGED_CONTENT, BUSY = -9, -3, -11
LARGEST_PIECE = 1 << 20
LONGEST_TEXT, DEEPEST, LARGEST_NUMBER = 1023, 8, 1 << 64
TEXT, WHOLE, NUMBER = (str,), (int,), (int, float)
HELLO: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("version", "arch", "system", "endian", "packs", "lock", "instructions"), TEXT),
    **dict.fromkeys(("protocol", "memory_bytes", "uptime_s", "idle_s"), WHOLE),
    **dict.fromkeys(("temperature_c", "frequency_mhz"), NUMBER),
    "features": (list,),
    "holder": (dict,),
}
HOLDER: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("owner", "boot_id"), TEXT),
    **dict.fromkeys(("pid", "since_uptime_s", "heard_uptime_s", "running"), WHOLE),
}


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A tensor was computed. tensor: its ONNX name. digest: 16 hex digits of XXH64. elapsed_ns: of the node. iteration:
    from 0."""

    tensor: str
    digest: str
    elapsed_ns: int
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a run. events: how many the run had. kept: whether every tensor can be fetched."""

    status: int
    text: str
    arena_bytes: int
    events: int
    kept: bool


def text(value: str) -> bytes:
    """Returns a text as payload bytes. Raises ProtocolError for a text that is too long or contains NUL."""
    data = value.encode()
    if len(data) > LONGEST_TEXT or b"\0" in data:
        raise ProtocolError(
            f"{value[:60]}...: a name longer than {LONGEST_TEXT} bytes, or with a NUL, cannot be sent to a board"
        )
    return struct.pack("<H", len(data)) + data


def read_text(payload: bytes, at: int = 0) -> tuple[str, int]:
    """Returns the text at offset `at` and the offset of its end. Raises ProtocolError."""
    end = at + 2 + struct.unpack_from("<H", payload, at)[0] if len(payload) >= at + 2 else -1
    if not 0 <= end <= len(payload):
        raise ProtocolError("a text is cut short")
    data = payload[at + 2 : end]
    if len(data) > LONGEST_TEXT or b"\0" in data:
        raise ProtocolError(f"a text of {len(data)} bytes; wanted at most {LONGEST_TEXT}, none of them NUL")
    return data.decode(errors="replace"), end


def read_hello(payload: bytes) -> dict[str, Any]:
    """Returns the fields that PROTOCOL.md gives HELLO, with the types given there; others are left out. Raises
    ProtocolError for anything but standard JSON, and for values that no report could contain."""
    try:
        hello = json.loads(read_text(payload)[0], parse_constant=_number, parse_float=_number, parse_int=_number)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"HELLO is not JSON: {error}") from error
    if not _within(hello, DEEPEST):
        raise ProtocolError(f"HELLO has lists or objects nested more than {DEEPEST} deep")
    if not isinstance(hello, dict) or hello.get("protocol") != 1:
        raise ProtocolError(
            f"the agent speaks protocol {hello.get('protocol') if isinstance(hello, dict) else '?'}, wanted 1"
        )
    fields = _typed(hello, HELLO)
    if "features" in fields:
        fields["features"] = [_line(f) for f in fields["features"] if isinstance(f, str)]
    if "holder" in fields:
        fields["holder"] = _typed(fields["holder"], HOLDER)
    return fields


def _typed(fields: Mapping[str, Any], wanted: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Returns the fields of the wanted types; a bool does not count as a number."""
    typed = {k: fields[k] for k, types in wanted.items() if k in fields and type(fields[k]) in types}
    return {k: _line(v) if isinstance(v, str) else v for k, v in typed.items()}


def _number(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise ValueError(f"the number {text[:40]}")
    return value if set(text) & set(".eE") else int(text)


def _within(value: object, levels: int) -> bool:
    """Returns whether lists and objects are nested at most `levels` deep."""
    if not isinstance(value, dict | list):
        return True
    children = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_within(v, levels - 1) for v in children)


def _line(text: str) -> str:
    return one_line(text[:500])


def busy(hello: Mapping[str, Any]) -> str:
    """Returns who has locked the board, since when and when last heard, in seconds ago since boards have no clock."""
    holder, now = hello.get("holder"), hello.get("uptime_s")
    if not isinstance(holder, dict) or not isinstance(now, int):
        return "the board is in use by an unnamed holder; --wait SECONDS waits for it"
    ago = {k: f"{now - v} s ago" for k in ("since", "heard") if isinstance(v := holder.get(f"{k}_uptime_s"), int)}
    return (
        f"the board is in use by {_line(str(holder.get('owner', '?'))).partition(' #')[0][:120]} since {ago.get('since', '?')}, last heard "
        f"{ago.get('heard', '?')}; --wait SECONDS waits for it"
    )


def read_error(payload: bytes) -> AgentError:
    """Returns the error in an ERROR payload."""
    if len(payload) < 4:
        raise ProtocolError("an ERROR is cut short")
    return AgentError(struct.unpack_from("<i", payload)[0], _line(read_text(payload, 4)[0]))


def put(sha256: str, total: int, offset: int, piece: bytes | memoryview) -> bytes:
    """Returns the payload of PUT: a piece at offset of a content of total bytes."""
    return b"".join((bytes.fromhex(sha256), struct.pack("<QQ", total, offset), piece))


def run(
    model: str, inputs: Sequence[str], nodes: Sequence[str], injected: Mapping[str, str], flags: int, repeat: int
) -> bytes:
    """Returns the payload of RUN. model, inputs, values of injected: content hashes."""
    parts = [bytes.fromhex(model), struct.pack("<BIH", flags, repeat, len(inputs)), *map(bytes.fromhex, inputs)]
    parts += [struct.pack("<H", len(nodes)), *map(text, nodes)]
    return b"".join([*parts, _injected(injected)])


def unbatched(run_payload: bytes) -> bytes:
    """Returns the same RUN without BATCHED: each event is sent as it comes."""
    return run_payload[:32] + bytes([run_payload[32] & ~BATCHED]) + run_payload[33:]


def unit(model: str, nodes: Sequence[str], injected: Mapping[str, str]) -> bytes:
    """Returns the payload of UNIT. model, values of injected: content hashes."""
    return b"".join([bytes.fromhex(model), struct.pack("<H", len(nodes)), *map(text, nodes), _injected(injected)])


def _injected(contents: Mapping[str, str]) -> bytes:
    return struct.pack("<H", len(contents)) + b"".join(
        text(name) + bytes.fromhex(sha256) for name, sha256 in contents.items()
    )


def read_event(payload: bytes, at: int = 0) -> tuple[int, NodeEvent, int]:
    """Returns an event's index in the run, the event, and the offset of its end."""
    if len(payload) < at + 24:
        raise ProtocolError("NODE is cut short")
    index, iteration, digest, elapsed = struct.unpack_from("<IIQQ", payload, at)
    name, end = read_text(payload, at + 24)
    return index, NodeEvent(name, f"{digest:016x}", elapsed, iteration), end


def read_node(payload: bytes) -> tuple[int, NodeEvent]:
    """Returns the index in the run and the event of a NODE. Raises ProtocolError if anything follows them."""
    index, event, end = read_event(payload)
    if end != len(payload):
        raise ProtocolError(f"NODE is {len(payload)} bytes, wanted {end}")
    return index, event


def read_events_from(first: int, most: int, payload: bytes) -> list[tuple[int, NodeEvent]]:
    """Returns the answer to EVENTS: consecutive events from `first`, below `most`. Raises Contradiction for others."""
    events: list[tuple[int, NodeEvent]] = []
    at = 0
    while at < len(payload):
        index, event, at = read_event(payload, at)
        if index != first + len(events) or index >= most:
            raise Contradiction(f"the board was asked for its events from {first} of {most} and sent event {index}")
        events.append((index, event))
    return events


def read_events(payload: bytes, names: Sequence[str]) -> list[tuple[int, NodeEvent]]:
    """Returns (index in the run, event) of every event of a NODES. names: the model's tensors in their order in
    model.bin."""
    if len(payload) < 8 or len(payload) % 16 != 8:
        raise ProtocolError(f"NODES is {len(payload)} bytes, wanted 8 and 16 per event")
    first, iteration = struct.unpack_from("<II", payload)
    events = []
    for i, (tensor, digest, elapsed_us) in enumerate(struct.iter_unpack("<IQI", payload[8:])):
        if tensor >= len(names):
            raise ProtocolError(f"NODES names tensor {tensor} of {len(names)}")
        events.append((first + i, NodeEvent(names[tensor], f"{digest:016x}", elapsed_us * 1000, iteration)))
    return events


def put_packed(sha256: str, total: int, offset: int, piece: bytes | memoryview) -> bytes | None:
    """Returns the payload of PUT_PACKED, with the piece as an LZ4 block; None if that is not shorter."""
    from lz4.block import compress

    block = compress(piece, store_size=False)
    if len(block) >= len(piece) - len(piece) // 16:
        return None
    return b"".join((bytes.fromhex(sha256), struct.pack("<QQI", total, offset, len(piece)), block))


def read_packed(payload: bytes) -> bytes:
    """Returns the payload of DATA (u64 size, u64 offset, bytes) of a PACKED."""
    from lz4.block import LZ4BlockError, decompress

    if len(payload) < 20 or (size := struct.unpack_from("<I", payload, 16)[0]) > LARGEST_PIECE:
        raise ProtocolError("PACKED is cut short or too large")
    try:
        plain = decompress(payload[20:], uncompressed_size=size)
    except (LZ4BlockError, ValueError, MemoryError) as error:
        raise ProtocolError(f"PACKED cannot be unpacked: {error}") from error
    if len(plain) != size:
        raise ProtocolError(f"PACKED unpacks to {len(plain)} bytes, wanted {size}")
    return payload[:16] + plain


def read_done(payload: bytes) -> Done:
    """Returns the values of DONE."""
    if len(payload) < 4:
        raise ProtocolError("DONE is cut short")
    line, at = read_text(payload, 4)
    if len(payload) != at + 13:
        raise ProtocolError(f"DONE is {len(payload)} bytes, wanted {at + 13}")
    arena, events, kept = struct.unpack_from("<QIB", payload, at)
    if events > 1 << 20:
        raise ProtocolError(f"DONE announces {events} events; at most 1048576")
    return Done(struct.unpack_from("<i", payload)[0], _line(line), arena, events, bool(kept))
