"""SigmaStar: the container *_outtensor_dump.bin, and the text unknown_{model}_{image}.txt of simulator and board."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np

from qverify.errors import BadFileError
from qverify.vendor_files.printed_numbers import count_numbers, numbers
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import (
    ITEM,
    ReadingOptions,
    VendorDump,
    VendorTensor,
    count_elements,
    real_number,
    whole_number,
)

WANTED = "one *_outtensor_dump.bin (it begins with isFloat:) or one unknown_*.txt (it begins with NAME Tensor:)"
CHECKED = "reads the documented format; not checked against a dump of the vendor's own tools"
TYPES = {"float": "float32", "SGS_S16": "int16", "SGS_S8": "int8", "SGS_U8": "uint8"}
_NAMES = re.compile(r".*outtensor_dump\.bin|unknown_.*\.txt")
_FLOAT = re.compile(rb"isFloat: ([01])")
_HEAD = re.compile(
    rb"//(out|in) \d{1,9} s: (\S+) z: (-?\d{1,9}) type: (\S+) name: (.+) bConstant: ?([01]) shape: ?\[([-\d, ]*)\] dims: ?(\d+)"
)
_OPEN = re.compile(rb"op_(out|in)\[(\d{1,9})\] .*= \{")
_SIZE = re.compile(rb"//buffer data size: (\d+)")
_TITLE = re.compile(rb"(.+) Tensor:\s*")
_DIMS = re.compile(rb"tensor dim: ?(\d+), Original shape: ?\[([-\d ,]*)\],? Alignment shape: ?\[([-\d ,]*)\]\s*")
_BLOCK = re.compile(rb"\s*([^\n]+) Tensor:\s*\n\{([^{}]*?)tensor data:")
_TEXT = re.compile(rb"\S")
MAX_TEXT_BYTES, MAX_RECORDS = 1 << 28, 200_000
DECIMALS = 6  # of printed values


def recognised(folder: UntrustedFolder) -> bool:
    return any(_kind(file) for file in _files(folder))


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump. Raises BadFileError if there is none, or more than one."""
    dumps = [file for file in _files(folder) if _kind(file)]
    if len(dumps) != 1:
        content = f"{len(dumps)} dumps" if dumps else "no dump"
        raise BadFileError(f"{folder.path}: {content}; wanted {WANTED}")
    return _read_text(dumps[0]) if _kind(dumps[0]) == "text" else _Container(dumps[0]).read()


def _files(folder: UntrustedFolder) -> list[UntrustedFile]:
    if folder.is_file:
        return [folder.only()]
    return [folder.file(name) for name in folder.names() if _NAMES.fullmatch(name)]


def _kind(file: UntrustedFile) -> str:
    start = file.read(0, min(file.size_bytes, 4096))
    first, _, rest = start.partition(b"\n")
    if _FLOAT.fullmatch(first):
        return "container"
    return "text" if _TITLE.fullmatch(first) and rest.startswith(b"{") else ""


class _Container:
    """Reads a container. The end of a record is determined by its declared size, since data may contain the closing
    line."""

    def __init__(self, file: UntrustedFile):
        self.file = file
        self.at = 0  # offset of the next byte
        self.floats = False  # True if the following records contain floats
        self.text_from, self.text_until = 0, 0  # offsets of the last data that are text
        self.outputs: dict[str, VendorTensor] = {}
        self.inputs: dict[str, VendorTensor] = {}
        self.missing: dict[str, str] = {}

    def read(self) -> VendorDump:
        for _ in range(MAX_RECORDS):
            if not self._read_record():
                break
        else:
            raise self._error(f"more than {MAX_RECORDS} records")
        for name, tensor in self.inputs.items():
            if name not in self.missing:
                self.outputs.setdefault(name, tensor)
        for name in self.missing:
            self.outputs.pop(name, None)
        return VendorDump("sigmastar", list(self.outputs.values()), None, self.missing)

    def _error(self, what: str) -> BadFileError:
        return BadFileError(f"{self.file.path}: byte {self.at}: {what}")

    def _line(self) -> bytes:
        line = self.file.line(self.at)
        self.at += len(line) + 1
        return line

    def _read_record(self) -> bool:
        """Reads one record. Returns False at the end of the file."""
        line = b""
        while not line.strip():
            if self.at >= self.file.size_bytes:
                return False
            line = self._line()
        if (kind := _FLOAT.fullmatch(line)) is not None:
            self.floats = kind[1] == b"1"
            return True
        head = _HEAD.fullmatch(line)
        if head is None:
            raise self._error(f"{line[:60]!r}; wanted a line //out ... or //in ...")
        opened = _OPEN.fullmatch(self._line())
        if opened is None or opened[1] != head[1]:
            raise self._error(f"wanted op_{head[1].decode()}[N] NAME = {{")
        size = _SIZE.fullmatch(self._line())
        if size is None:
            raise self._error("wanted //buffer data size: N")
        self._tensor(head, whole_number(size[1], f"{self.file.path}: byte {self.at}"))
        return True

    def _tensor(self, head: re.Match[bytes], size: int) -> None:
        where = f"{self.file.path}: byte {self.at}"
        shape = _shape(head[7], where)
        if len(shape) != whole_number(head[8], where):
            raise self._error(f"shape {list(shape)}, but dims:{head[8].decode()[:9]}")
        name = head[5].decode("utf-8", "replace")
        start = self.at
        is_text = self._skip(size)
        dtype = "float32" if self.floats else TYPES.get(head[4].decode("ascii", "replace"), "")
        if head[6] == b"1":
            return
        if not dtype:
            self.missing[name] = f"type {head[4].decode('ascii', 'replace')[:20]} is not known"
            return
        is_float = dtype == "float32"
        scale = () if is_float else self._scale(head[2])
        stored = _stored(shape, size // ITEM[dtype], size % ITEM[dtype])
        if stored is None:
            self.missing[name] = f"{size} bytes do not fit {dtype}{list(shape)}, also not with a longer innermost dim"
            return
        count = count_elements(stored, where)
        tensor = VendorTensor(
            name,
            where,
            ("float64" if is_float else dtype,) if is_text else (dtype,),
            count * 8 if is_text and is_float else size,
            self._reader(start, size, count, dtype, is_text),
            shape,
            stored if stored != shape else (),
            scale,
            (int(head[3]),) if scale else (),
            layout="NHWC" if len(shape) == 4 else "",
            loose_inner=True,
            scale_step=(0.5e-6,) if scale else (),
            decimals=DECIMALS if is_text and is_float else None,
            is_input=head[1] == b"in",
        )
        tensors = self.outputs if head[1] == b"out" else self.inputs
        if name in self.outputs and head[1] == b"out":
            self.missing[name] = "the dump contains two outputs of this name"
        tensors.setdefault(name, tensor)

    def _scale(self, text: bytes) -> tuple[float, ...]:
        """Parses a scale. Returns () for 0.000000, which would make all values equal."""
        scale = real_number(text, f"{self.file.path}: byte {self.at}")
        if scale < 0:
            raise self._error(f"scale {scale:g}; wanted a positive one")
        return (scale,) if scale else ()

    def _skip(self, size: int) -> bool:
        """Moves to the end of the record. Returns True if its data are text."""
        for end in (b"\n};", b"};"):
            after = self.at + size
            if after + len(end) <= self.file.size_bytes and self.file.read(after, len(end)) == end:
                self.at = after + len(end)
                if self.at < self.file.size_bytes and self.file.read(self.at, 1) == b"\n":
                    self.at += 1
                return False
        if self.at < self.file.size_bytes and self.file.read(self.at, 1) == b"\n" and self._text_end():
            return True
        raise self._error(f"{size} bytes of data are declared, but }}; does not follow them")

    def _text_end(self) -> bool:
        """Moves to the end of a text of numbers, which }; closes. Returns False if it is not closed."""
        self.text_from, at = self.at + 1, self.at + 1
        while at < self.file.size_bytes and at - self.at <= MAX_TEXT_BYTES:
            block = self.file.read(at, min(1 << 20, self.file.size_bytes - at))
            if (end := block.find(b"};")) >= 0:
                self.text_until = at + end
                self.at = min(at + end + 3, self.file.size_bytes)
                return True
            at += max(len(block) - 1, 1)
        return False

    def _reader(self, start: int, size: int, count: int, dtype: str, is_text: bool) -> Callable[[], bytes]:
        if not is_text:
            return partial(self.file.read, start, size)
        return partial(_printed, self.file, self.text_from, self.text_until, count, dtype)


def _printed(file: UntrustedFile, start: int, end: int, count: int, dtype: str) -> bytes:
    """Returns printed values as bytes: float64 for floats, otherwise whole numbers of type dtype."""
    values, _ = numbers(file.read(start, end - start), count, file.path, start)
    if dtype == "float32":
        return values.astype("<f8").tobytes()
    limits = np.iinfo(dtype)
    if not bool(np.all((values == np.rint(values)) & (values >= limits.min) & (values <= limits.max))):
        raise BadFileError(f"{file.path}: byte {start}: values that are not {dtype}")
    return values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def _shape(text: bytes, where: str) -> tuple[int, ...]:
    shape = tuple(whole_number(d, where) for d in text.replace(b",", b" ").split())
    count_elements(shape, where)
    return shape


def _stored(shape: tuple[int, ...], count: int, rest: int) -> tuple[int, ...] | None:
    """Returns the stored shape with `count` elements: shape itself, or shape with a longer innermost dim. Returns None
    if neither fits. rest: remaining bytes."""
    outer = count_elements(shape[:-1], "")
    if rest or not shape or not outer:
        return shape if not rest and count == count_elements(shape, "") else None
    inner, over = divmod(count, outer)
    return None if over or inner < shape[-1] else (*shape[:-1], inner)


def _read_text(file: UntrustedFile) -> VendorDump:
    """Reads the text of simulator.py or prog_dla_simulator: values printed with %.6f, in the aligned shape."""
    data, at, tensors = file.whole(MAX_TEXT_BYTES), 0, []
    while _TEXT.search(data, at):
        tensor, at = _block(file, data, at)
        tensors.append(tensor)
    duplicates = {name for name, times in Counter(t.name for t in tensors).items() if times > 1}
    missing = dict.fromkeys(sorted(duplicates), "the text contains two tensors of this name")
    notes = [f"sigmastar: {file.path.rsplit('/', 1)[-1]} is text of {DECIMALS} decimals; nothing finer can be judged"]
    return VendorDump("sigmastar", [t for t in tensors if t.name not in duplicates], None, missing, notes)


def _block(file: UntrustedFile, data: bytes, at: int) -> tuple[VendorTensor, int]:
    """Returns the tensor that begins at this offset, and the offset of its end."""

    def bad(what: str) -> BadFileError:
        return BadFileError(f"{file.path}: byte {at}: {what}")

    end = data.find(b"\n}", at)
    head = _BLOCK.match(data, at, min(max(end, at), at + 8192))
    if end < 0 or head is None:
        raise bad("wanted NAME Tensor:, {, the shapes, tensor data:, the values and }")
    where = f"{file.path}: byte {head.end()}"
    dims = _DIMS.search(head[2])
    if dims is None:
        raise bad("wanted tensor dim:N, Original shape:[...], Alignment shape:[...]")
    shape, aligned = _shape(dims[2], where), _shape(dims[3], where)
    if len(shape) != len(aligned) or shape[:-1] != aligned[:-1] or shape[-1:] > aligned[-1:]:
        raise bad(f"original shape {list(shape)} does not fit into alignment shape {list(aligned)}")
    text = data[head.end() : end]
    stored = aligned if count_numbers(text) > count_elements(shape, where) else shape
    values, decimals = numbers(text, count_elements(stored, where), file.path, head.end())
    if decimals is not None and decimals != DECIMALS:
        raise bad(f"{decimals} decimals; this text has {DECIMALS} everywhere")
    content, name = values.astype("<f8").tobytes(), head[1].decode("utf-8", "replace").strip()
    padded = stored if stored != shape else ()
    layout = "NHWC" if len(shape) == 4 else ""
    read = partial(bytes, content)
    tensor = VendorTensor(
        name, where, ("float64",), len(content), read, shape, padded, layout=layout, decimals=DECIMALS
    )
    return tensor, end + 2
