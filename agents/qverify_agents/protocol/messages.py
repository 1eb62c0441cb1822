"""Encodes and decodes the payloads of PROTOCOL.md. Decoding checks every length."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qverify_agents.errors import AgentError, Contradiction, ProtocolError
from qverify_agents.printable import one_line

DIGESTS, EVERY_TENSOR, BATCHED, KEEPS = 1, 2, 4, 8  # flags of RUN
MAX_KEPT = 512  # final outputs that a run may keep
MAX_HASHES = 4096  # of one HAVE
NOT_FOUND, DAMAGED_CONTENT, BUSY = -9, -3, -11  # statuses
MAX_PIECE_BYTES = 1 << 20
MIN_PAYLOAD_BYTES = 160  # of max_payload in HELLO
PUT_HEADER_BYTES, HASH_BYTES = 52, 32  # the first: of PUT_PACKED
MAX_TEXT_BYTES, MAX_NESTING, MAX_NUMBER = 1023, 8, 1 << 64
TEXT, WHOLE, NUMBER = (str,), (int,), (int, float)
HELLO_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("version", "arch", "system", "endian", "packs", "lock", "instructions", "own_model", "float"), TEXT
    ),
    **dict.fromkeys(("protocol", "memory_bytes", "uptime_s", "idle_s", "max_payload", "keeps"), WHOLE),
    **dict.fromkeys(("temperature_c", "frequency_mhz"), NUMBER),
    **dict.fromkeys(("features", "inputs"), (list,)),
    "holder": (dict,),
}
HOLDER_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("owner", "boot_id"), TEXT),
    **dict.fromkeys(("pid", "since_uptime_s", "heard_uptime_s", "running"), WHOLE),
}


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """The event that a tensor was computed. tensor: its ONNX name. digest: its XXH64 in 16 hex digits. elapsed_ns: time
    of its node in nanoseconds. iteration: number of the iteration, from 0."""

    tensor: str
    digest: str
    elapsed_ns: int
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The content of a DONE message, which ends a run. status: 0 or a status of PROTOCOL.md. text: the reason of a
    failure, or the JSON of a runtime other than qvrt. arena_bytes: memory of the run's tensors. events: number of the
    run's events. kept: whether every tensor can be fetched."""

    status: int
    text: str
    arena_bytes: int
    events: int
    kept: bool


def encode_text(value: str) -> bytes:
    """Returns the bytes of a text in a payload. Raises ProtocolError for a text that is too long or contains NUL."""
    data = value.encode()
    if len(data) > MAX_TEXT_BYTES or b"\0" in data:
        raise ProtocolError(
            f"{value[:60]}...: a name longer than {MAX_TEXT_BYTES} bytes, or with a NUL, cannot be sent to a board"
        )
    return struct.pack("<H", len(data)) + data


def read_text(payload: bytes, at: int = 0) -> tuple[str, int]:
    """Returns the text at offset `at` of the payload, and the offset of its end. Raises ProtocolError if it is cut
    short, too long or contains NUL."""
    end = at + 2 + struct.unpack_from("<H", payload, at)[0] if len(payload) >= at + 2 else -1
    if not 0 <= end <= len(payload):
        raise ProtocolError("a text is cut short")
    data = payload[at + 2 : end]
    if len(data) > MAX_TEXT_BYTES or b"\0" in data:
        raise ProtocolError(f"a text of {len(data)} bytes; wanted at most {MAX_TEXT_BYTES}, none of them NUL")
    return data.decode(errors="replace"), end


def read_hello(payload: bytes) -> dict[str, Any]:
    """Returns the fields of a HELLO that PROTOCOL.md names and that have the types stated there; leaves out all others.
    Raises ProtocolError for anything but standard JSON, for numbers that do not fit in 64 bits, for deep nesting and
    for another protocol version."""
    try:
        hello = json.loads(
            read_text(payload)[0], parse_constant=_parse_number, parse_float=_parse_number, parse_int=_parse_number
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"HELLO is not JSON: {error}") from error
    if not _is_nested_at_most(hello, MAX_NESTING):
        raise ProtocolError(f"HELLO has lists or objects nested more than {MAX_NESTING} deep")
    if not isinstance(hello, dict) or hello.get("protocol") != 1:
        raise ProtocolError(
            f"the agent speaks protocol {hello.get('protocol') if isinstance(hello, dict) else '?'}, wanted 1"
        )
    fields = _keep_typed(hello, HELLO_FIELDS)
    for name in fields.keys() & {"features", "inputs"}:
        fields[name] = [_shorten(f) for f in fields[name] if isinstance(f, str)]
    if not MIN_PAYLOAD_BYTES <= fields.get("max_payload", MAX_PIECE_BYTES) <= MAX_PIECE_BYTES:
        raise ProtocolError(
            f"the agent receives payloads of at most {fields['max_payload']} bytes; wanted {MIN_PAYLOAD_BYTES} to {MAX_PIECE_BYTES}"
        )
    if "holder" in fields:
        fields["holder"] = _keep_typed(fields["holder"], HOLDER_FIELDS)
    return fields


def _keep_typed(fields: Mapping[str, Any], types_by_name: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Returns the fields that have one of their types, texts as one line; a bool does not count as a number."""
    kept = {k: fields[k] for k, types in types_by_name.items() if k in fields and type(fields[k]) in types}
    return {k: _shorten(v) if isinstance(v, str) else v for k, v in kept.items()}


def _parse_number(text: str) -> int | float:
    """Returns a number of JSON. Raises ValueError if it is infinite, not a number or beyond MAX_NUMBER."""
    value = float(text)
    if not math.isfinite(value) or abs(value) > MAX_NUMBER:
        raise ValueError(f"the number {text[:40]}")
    return value if set(text) & set(".eE") else int(text)


def _is_nested_at_most(value: object, levels: int) -> bool:
    """Returns whether lists and objects are nested at most `levels` deep."""
    if not isinstance(value, dict | list):
        return True
    children = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_nested_at_most(v, levels - 1) for v in children)


def _shorten(text: str) -> str:
    """Returns the text as one printable line of at most 500 characters."""
    return one_line(text[:500])


def format_busy(hello: Mapping[str, Any]) -> str:
    """Returns the error message for a board that another host has locked: the holder, and how many seconds ago it took
    the lock and was last heard. (Boards have no clock, only an uptime.)"""
    holder, now = hello.get("holder"), hello.get("uptime_s")
    if not isinstance(holder, dict) or not isinstance(now, int):
        return "the board is in use by an unnamed holder; --wait SECONDS waits for it"
    ago = {k: f"{now - v} s ago" for k in ("since", "heard") if isinstance(v := holder.get(f"{k}_uptime_s"), int)}
    return (
        f"the board is in use by {_shorten(str(holder.get('owner', '?'))).partition(' #')[0][:120]} since {ago.get('since', '?')}, last heard "
        f"{ago.get('heard', '?')}; --wait SECONDS waits for it"
    )


def read_error(payload: bytes) -> AgentError:
    """Returns the error in an ERROR payload."""
    if len(payload) < 4:
        raise ProtocolError("an ERROR is cut short")
    return AgentError(struct.unpack_from("<i", payload)[0], _shorten(read_text(payload, 4)[0]))


def own_content(index: int, digest: str) -> str:
    """Returns the identity, in hex, of the content that is input number `index` of a firmware with a model of its own.
    digest: the XXH64 of its bytes in 16 hex digits."""
    return struct.pack("<QH", int(digest, 16), index).ljust(HASH_BYTES, b"\0").hex()


def encode_put(sha256: str, total: int, offset: int, piece: bytes | memoryview) -> bytes:
    """Returns the payload of PUT: a piece that begins at `offset` of a content of `total` bytes."""
    return b"".join((bytes.fromhex(sha256), struct.pack("<QQ", total, offset), piece))


def encode_run(
    model: str,
    inputs: Sequence[str],
    nodes: Sequence[str],
    injected: Mapping[str, str],
    flags: int,
    repeat: int,
    keep: Sequence[str] = (),
) -> bytes:
    """Returns the payload of RUN. The model, the inputs and the values of `injected` (by tensor) are content hashes;
    nodes: further tensors to report; keep: final outputs that become contents, with the flag KEEPS."""
    parts = [bytes.fromhex(model), struct.pack("<BIH", flags, repeat, len(inputs)), *map(bytes.fromhex, inputs)]
    parts += [struct.pack("<H", len(nodes)), *map(encode_text, nodes)]
    kept = [struct.pack("<H", len(keep)), *map(encode_text, keep)] if flags & KEEPS else []
    return b"".join([*parts, _encode_injected(injected), *kept])


def remove_batching(run_payload: bytes) -> bytes:
    """Returns the payload of the same RUN without the flag BATCHED: the agent then sends each event at once."""
    return run_payload[:32] + bytes([run_payload[32] & ~BATCHED]) + run_payload[33:]


def encode_unit(model: str, nodes: Sequence[str], injected: Mapping[str, str]) -> bytes:
    """Returns the payload of UNIT. The model and the values of `injected` (by tensor) are content hashes."""
    return b"".join(
        [bytes.fromhex(model), struct.pack("<H", len(nodes)), *map(encode_text, nodes), _encode_injected(injected)]
    )


def _encode_injected(contents: Mapping[str, str]) -> bytes:
    return struct.pack("<H", len(contents)) + b"".join(
        encode_text(name) + bytes.fromhex(sha256) for name, sha256 in contents.items()
    )


def read_event(payload: bytes, at: int = 0) -> tuple[int, NodeEvent, int]:
    """Returns an event's index in the run, the event, and the offset of its end."""
    if len(payload) < at + 24:
        raise ProtocolError("NODE is cut short")
    index, iteration, digest, elapsed = struct.unpack_from("<IIQQ", payload, at)
    name, end = read_text(payload, at + 24)
    return index, NodeEvent(name, f"{digest:016x}", elapsed, iteration), end


def read_node(payload: bytes) -> tuple[int, NodeEvent]:
    """Returns the index in the run and the event of a NODE. Raises ProtocolError if more bytes follow."""
    index, event, end = read_event(payload)
    if end != len(payload):
        raise ProtocolError(f"NODE is {len(payload)} bytes, wanted {end}")
    return index, event


def read_events_from(first: int, total: int, payload: bytes) -> list[tuple[int, NodeEvent]]:
    """Returns (index in the run, event) for the answer to EVENTS: consecutive events that begin at `first`. Raises
    Contradiction for any other index, and for one that is not below `total`."""
    events: list[tuple[int, NodeEvent]] = []
    at = 0
    while at < len(payload):
        index, event, at = read_event(payload, at)
        if index != first + len(events) or index >= total:
            raise Contradiction(f"the board was asked for its events from {first} of {total} and sent event {index}")
        events.append((index, event))
    return events


def read_events(payload: bytes, names: Sequence[str]) -> list[tuple[int, NodeEvent]]:
    """Returns (index in the run, event) for every event of a NODES. names: names of the model's tensors, in their order
    in model.bin."""
    if len(payload) < 8 or len(payload) % 16 != 8:
        raise ProtocolError(f"NODES is {len(payload)} bytes, wanted 8 and 16 per event")
    first, iteration = struct.unpack_from("<II", payload)
    events = []
    for i, (tensor, digest, elapsed_us) in enumerate(struct.iter_unpack("<IQI", payload[8:])):
        if tensor >= len(names):
            raise ProtocolError(f"NODES names tensor {tensor} of {len(names)}")
        events.append((first + i, NodeEvent(names[tensor], f"{digest:016x}", elapsed_us * 1000, iteration)))
    return events


def encode_put_packed(sha256: str, total: int, offset: int, piece: bytes | memoryview) -> bytes | None:
    """Returns the payload of PUT_PACKED, with the piece as an LZ4 block, or None if that saves less than a
    sixteenth."""
    from lz4.block import compress

    block = compress(piece, store_size=False)
    if len(block) >= len(piece) - len(piece) // 16:
        return None
    return b"".join((bytes.fromhex(sha256), struct.pack("<QQI", total, offset, len(piece)), block))


def read_packed(payload: bytes) -> bytes:
    """Returns the payload of the DATA (u64 size, u64 offset, bytes) that a PACKED stands for."""
    from lz4.block import LZ4BlockError, decompress

    if len(payload) < 20 or (size := struct.unpack_from("<I", payload, 16)[0]) > MAX_PIECE_BYTES:
        raise ProtocolError("PACKED is cut short or too large")
    try:
        plain = decompress(payload[20:], uncompressed_size=size)
    except (LZ4BlockError, ValueError, MemoryError) as error:
        raise ProtocolError(f"PACKED cannot be unpacked: {error}") from error
    if len(plain) != size:
        raise ProtocolError(f"PACKED unpacks to {len(plain)} bytes, wanted {size}")
    return payload[:16] + plain


def read_done(payload: bytes) -> Done:
    """Returns the content of a DONE. Raises ProtocolError if it is malformed."""
    if len(payload) < 4:
        raise ProtocolError("DONE is cut short")
    text, end = read_text(payload, 4)
    if len(payload) != end + 13:
        raise ProtocolError(f"DONE is {len(payload)} bytes, wanted {end + 13}")
    arena, events, kept = struct.unpack_from("<QIB", payload, end)
    if events > 1 << 20:
        raise ProtocolError(f"DONE announces {events} events; at most 1048576")
    return Done(struct.unpack_from("<i", payload)[0], _shorten(text), arena, events, bool(kept))
