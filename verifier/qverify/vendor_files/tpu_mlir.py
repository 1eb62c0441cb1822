"""Reads the text of tpu-mlir's modules: NAME.mlir (float), NAME_CHIP_MODE_tpu.mlir (after quantization).

A module states of every tensor its name, its type with scale and zero point in 17 digits, and of every op its
attributes, among them the multipliers and shifts with which the chip computes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qverify.errors import BadFileError

MAX_BYTES, MAX_OPS = 1 << 28, 1 << 20
MAX_DIGITS = 18  # of a dim or a zero point
MAX_HEAD = 1 << 12  # bytes in which a text names its module
MODULE, INPUT = "text of tpu-mlir", "top.Input"
MAGIC = re.compile(rb"\s*(?:#loc\d* = loc\([^\n]*\)\s+)*module @?[\w.\"]* *(?:attributes|\{)")
_OP = re.compile(r'\s*(?:%(\w+)(?::\d+)? = )?"([a-z]+\.\w+)"\(([^)]*)\)')
_LOCATION = re.compile(r"#(loc\d*) = loc\((.*)\)\s*")
_HEAD = re.compile(r"module\.(\w+) = (\"[^\"]*\"|[^,}]+)")
_QUANTIZED = re.compile(r"!quant\.uniform<([iu]\d{1,3}):f32, ([-+.\deE]+)(?::(-?\d+))?>")
_SHAPE = re.compile(r"tensor<((?:\d+x)*)(.*)>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+) = (\[[^\]]*\]|"[^"]*"|#\w+<\w+ \w+>|\{[^}]*\}|[-+.\w]+)')
_INTEGER = re.compile(r"[us]?i\d+")


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a tensor's integers stand for real values. type: i8, u8, i16."""

    type: str
    scale: float
    zero_point: int = 0

    @property
    def dtype(self) -> str:
        return ("uint" if self.type[0] == "u" else "int") + self.type[1:]


@dataclass(frozen=True, slots=True)
class TpuOp:
    """One op of a module.

    Attributes:
        id: number of its result in the text, "" without one.
        name: "tpu.Conv2D", "top.Weight".
        operands: numbers of its operands.
        attributes: numbers, texts, and lists of them by name.
        tensor: name of the tensor that it makes (of several the first one).
        shape: that tensor's shape; () if it has none.
        element: type of its elements, as "f32", "bf16", "si8"; "" if it is quantized.
        quantization: its quantization, or None.
    """

    id: str
    name: str
    operands: tuple[str, ...]
    attributes: dict[str, Any]
    tensor: str
    shape: tuple[int, ...] = ()
    element: str = ""
    quantization: Quantization | None = None

    def numbers(self, *keys: str) -> tuple[int, ...]:
        """Returns the integers of the first of these attributes that it has, one or a list; () without any."""
        for key in keys:
            value = self.attributes.get(key)
            if value is not None:
                values = value if isinstance(value, list) else [value]
                return tuple(v for v in values if isinstance(v, int))
        return ()


@dataclass(frozen=True, slots=True)
class TpuModule:
    """A module. facts: its attributes (chip, mode, platform, state, weight_file). ops: in the order of the network."""

    facts: dict[str, str] = field(default_factory=dict)
    ops: tuple[TpuOp, ...] = ()

    @property
    def computed(self) -> tuple[TpuOp, ...]:
        """The ops that make a tensor of the network, without weights."""
        return tuple(op for op in self.ops if op.tensor and op.name not in ("top.Weight", "top.None"))

    @property
    def by_id(self) -> dict[str, TpuOp]:
        return {op.id: op for op in self.ops if op.id}


def is_module(start: bytes) -> bool:
    """Returns whether a file that begins so is a module of MLIR in text."""
    return MAGIC.match(start) is not None


def read_module(data: bytes, where: str) -> TpuModule:
    """Returns the module of a text. Raises BadFileError for one that is none, or that has no op with a name."""
    if len(data) > MAX_BYTES:
        raise BadFileError(f"{where}: {len(data)} bytes; at most {MAX_BYTES} are read")
    lines = data.decode("utf-8", "replace").splitlines()
    locations = {match[1]: match[2] for line in lines if (match := _LOCATION.match(line))}
    facts: dict[str, str] = {}
    ops: list[TpuOp] = []
    for number, line in enumerate(lines, 1):
        if not facts and line.lstrip().startswith("module"):
            facts = {key: value.strip().strip('"').split(" : ")[0] for key, value in _HEAD.findall(line)}
        match = _OP.match(line)
        if match is None:
            continue
        if len(ops) >= MAX_OPS:
            raise BadFileError(f"{where}: more than {MAX_OPS} ops")
        ops.append(_op(match, line, locations, f"{where}: line {number}"))
    if not any(op.tensor for op in ops):
        raise BadFileError(f"{where}: no op of tpu-mlir in it; wanted NAME_tpu.mlir, as model_deploy writes it")
    return TpuModule(facts, tuple(ops))


def _op(match: re.Match[str], line: str, locations: dict[str, str], where: str) -> TpuOp:
    identity, name, operands, rest = match[1] or "", match[2], match[3], line[match.end() :]
    attributes, rest = _attributes(rest, where)
    _, _, results = rest.rpartition(" -> ")
    result, _, location = results.rpartition(" loc(")
    tensor = next(_names(location.rstrip().removesuffix(")"), locations), "")
    quantized, shaped = _QUANTIZED.search(result), _SHAPE.match(result.strip().lstrip("("))
    shape = tuple(_whole(d, where) for d in shaped[1].split("x")[:-1]) if shaped else ()
    quantization = None
    if quantized is not None:
        quantization = Quantization(quantized[1], _number(quantized[2], where), _whole(quantized[3] or "0", where))
    elif found := re.search(r"quant\.calibrated<(\w+)<", result):
        shaped_type = found[1]
        return TpuOp(identity, name, _ids(operands), attributes, tensor, shape, shaped_type)
    element = "" if quantization or not shaped else shaped[2].split(">")[0].split(",")[0]
    return TpuOp(identity, name, _ids(operands), attributes, tensor, shape, element, quantization)


def _ids(operands: str) -> tuple[str, ...]:
    return tuple(word.strip().lstrip("%").partition("#")[0] for word in operands.split(",") if word.strip())


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise BadFileError(f"{where}: a scale of {text[:40]!r}")
    return value


def _whole(text: str, where: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BadFileError(f"{where}: a number of {len(text)} digits; wanted at most {MAX_DIGITS}")
    return int(text)


def _names(location: str, locations: dict[str, str], depth: int = 0) -> Iterator[str]:
    """Yields the names in a location: a text, a reference to another one, or several of them."""
    if depth > 4:
        return
    for quoted, reference in re.findall(r'("(?:[^"\\]|\\.)*")|#(loc\d*)', location):
        if quoted:
            try:
                yield str(json.loads(quoted))
            except ValueError:
                yield quoted[1:-1]
        else:
            yield from _names(locations.get(reference, ""), locations, depth + 1)


def _attributes(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Returns the attributes in braces at the beginning of a text, and what follows them."""
    text = text.lstrip()
    if not text.startswith("{"):
        return {}, text
    depth, quoted, end = 0, False, 0
    for at, char in enumerate(text):
        if char == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif not quoted and char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                end = at
                break
    if not end:
        raise BadFileError(f"{where}: its attributes do not end")
    return {key: _value(value) for key, value in _ATTRIBUTE.findall(text[1:end])}, text[end + 1 :]


def _value(text: str) -> Any:
    if text.startswith("["):
        return [_value(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if text.startswith("#"):
        return text.split()[-1].rstrip(">")
    if text.startswith('"'):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text.split(" : ")[0])
        except ValueError:
            continue
    return text
