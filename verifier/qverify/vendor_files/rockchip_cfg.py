"""NAME.quantization.cfg of Rockchip's hybrid_quantization_step1: type, scale and zero point of every tensor of the
optimized graph, in 17 digits. A text in a part of YAML: keys, lists of numbers, and empty lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qverify.errors import BadFileError
from qverify.vendor_files.vendor_dump import real_number

MAX_CFG_BYTES = 1 << 24
TENSORS = "quantize_parameters"
QUANTIZED = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}
_LINE = re.compile(r"( *)(.*?)\s*")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "_": "\xa0", "e": "\x1b", "a": "\a", "b": "\b"}


@dataclass(frozen=True, slots=True)
class CfgTensor:
    """One tensor of the file.

    Attributes:
        dtype: int8, int16, float16 or float32.
        scale: one scale, or one for each channel; () if it is not quantized.
        zero_point: as many zero points.
        smallest, largest: the range that is represented.
    """

    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    smallest: tuple[float, ...] = ()
    largest: tuple[float, ...] = ()

    @property
    def quantized(self) -> bool:
        return bool(self.scale) and self.dtype in QUANTIZED


def is_cfg(data: bytes) -> bool:
    """Returns whether a file is such a text, by its first bytes."""
    return any(line.rstrip() == f"{TENSORS}:".encode() for line in data[: 1 << 16].splitlines())


def read_cfg(data: bytes, where: str) -> dict[str, CfgTensor]:
    """Returns the tensors of the file, by name, in its order. Raises BadFileError, with the line, for another form."""
    if len(data) > MAX_CFG_BYTES:
        raise BadFileError(f"{where}: {len(data)} bytes; at most {MAX_CFG_BYTES} are read")
    tensors: dict[str, dict[str, list[str]]] = {}
    place = _Place(where)
    for place.number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or not match[2] or match[2].startswith("#"):
            continue
        _read_line(place, len(match[1]), match[2], tensors)
    if not place.found:
        raise BadFileError(f"{where}: no {TENSORS}; wanted NAME.quantization.cfg of hybrid_quantization_step1")
    return {name: _tensor(name, fields, where) for name, fields in tensors.items()}


@dataclass(slots=True)
class _Place:
    """The place of the reader: file, line, tensor and field."""

    where: str
    number: int = 0
    inside: bool = False
    found: bool = False
    tensor: str = ""
    field: str = ""
    indent: int = 0

    def fail(self, text: str) -> BadFileError:
        return BadFileError(
            f"{self.where}: line {self.number}: {text[:60]!r}; wanted a tensor, or a field and its numbers"
        )


def _read_line(place: _Place, indent: int, text: str, tensors: dict[str, dict[str, list[str]]]) -> None:
    if indent == 0:
        place.inside = text == f"{TENSORS}:"
        place.found, place.tensor = place.found or place.inside, ""
    elif not place.inside:
        return
    elif text.startswith("- ") and place.tensor and place.field:
        tensors[place.tensor][place.field].append(text[2:].strip())
    elif not place.tensor or indent <= place.indent:
        _open_tensor(place, indent, text, tensors)
    else:
        key, colon, value = text.partition(":")
        if not colon:
            raise place.fail(text)
        place.field = key.strip()
        tensors[place.tensor][place.field] = [] if value.strip() in ("", "[]") else [value.strip()]


def _open_tensor(place: _Place, indent: int, text: str, tensors: dict[str, dict[str, list[str]]]) -> None:
    """Reads the line that opens a tensor: `NAME:`, or `? NAME` and on the next line `:   qtype: asym` for a long name."""
    if text.startswith("? "):
        name = text[2:].strip()
    elif text.startswith(":") and place.tensor:
        key, _, value = text[1:].strip().partition(":")
        place.field = key.strip()
        tensors[place.tensor][place.field] = [value.strip()]
        return
    elif text.endswith(":"):
        name = text[:-1].rstrip()
    else:
        raise place.fail(text)
    place.tensor, place.indent, place.field = _unquoted(name), indent, ""
    if place.tensor in tensors:
        raise place.fail(text)
    tensors[place.tensor] = {}


def _unquoted(name: str) -> str:
    """Returns a key without its quotation marks and escapes."""
    if len(name) > 1 and name[0] == name[-1] == "'":
        return name[1:-1].replace("''", "'")
    if len(name) > 1 and name[0] == name[-1] == '"':
        return _ESCAPE.sub(_unescaped, name[1:-1])
    return name


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        code = int(digits, 16)
        return chr(code) if code < 0x110000 else "?"
    return _SIMPLE.get(match[4], match[4])


def _tensor(name: str, fields: dict[str, list[str]], where: str) -> CfgTensor:
    place = f"{where}: {name[:60]!r}"
    scale = tuple(real_number(text, place) for text in fields.get("scale", ()))
    zero = tuple(real_number(text, place) for text in fields.get("zero_point", ()))
    if len(scale) != len(zero) or any(s <= 0 for s in scale) or any(z != int(z) for z in zero):
        raise BadFileError(
            f"{place}: scale {list(scale)[:3]}, zero_point {list(zero)[:3]}; wanted positive scales, each with a whole zero point"
        )
    dtype = (fields.get("dtype") or [""])[0]
    low, high = QUANTIZED.get(dtype, (0, 0))
    if scale and (dtype not in QUANTIZED or not all(low <= z <= high for z in zero)):
        raise BadFileError(
            f"{place}: scale and zero_point {list(zero)[:3]} of {dtype[:20]!r}; wanted one of {', '.join(QUANTIZED)} and its integers"
        )
    smallest, largest = (tuple(real_number(t, place) for t in fields.get(key, ())) for key in ("min", "max"))
    return CfgTensor(dtype, scale, tuple(int(z) for z in zero), smallest, largest)
