"""Pairs tensors of two dumps whose tools write one name in different ways: by the endings that tools are known to append,
by the spelling of file names, by the parts of fused names, and by a map of the user. Never by position, and only where
exactly one tensor of each side is meant."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod

from qverify.closest_names import closest_names, did_you_mean
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.plural import count
from qverify.printable import printable
from qverify.tensors.codes import restore_codes
from qverify.tensors.recording import Recording

ENDINGS = {  # what tools append to a tensor's name
    "_QuantizeLinear_Output": "onnxruntime's quantizer",
    "_DequantizeLinear_Output": "onnxruntime's quantizer",
    "_quantized": "quantizers",
    "_dequantized": "quantizers",
    ":0": "TensorFlow",
    "_int8": "rknn-toolkit2",
    "_uint8": "converters",
    "_f32": "tpu-mlir",
}
MAX_LISTED = 8
MAX_MAP_BYTES = 1 << 22


def pair_rewritten(first: Recording, second: Recording) -> list[str]:
    """Gives tensors of the second dump the name of the one tensor of the first that they are a rewriting of. Returns a
    note for the report of what was paired, and of what fits several; [] if nothing was."""
    meant, doubtful = match_rewritten(_alone(second, first), _alone(first, second))
    notes, renamed = list[str](), {b: a for b, a in meant.items() if _may_be(first, second, a, b)}
    rename(second, renamed)
    notes += _fit_axes(first, second, [name for name in first.specs if name in second.specs])
    if renamed:
        notes.append(
            f"paired by a rewritten name: {len(renamed)}: {_listed(f'{new} for {old}' for old, new in renamed.items())}"
        )
    if doubtful:
        notes.append(
            f"names that fit several tensors, not paired: {_listed(dict.fromkeys(doubtful))}; --map FILE decides"
        )
    return notes


def match_rewritten(names: Collection[str], others: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Returns, of these names, the one of the others that each is a rewriting of, where exactly one of both is meant; and
    texts on those that fit several."""
    own_by_key, others_by_key = _by_key(names), _by_key(others)
    found, doubtful = dict[str, str](), list[str]()
    for name in names:
        meant = sorted({other for key in _keys(name) for other in others_by_key.get(key, ())})
        rivals = {other for one in meant for key in _keys(one) for other in own_by_key.get(key, ())}
        if len(meant) == len(rivals) == 1:
            found[name] = meant[0]
        elif meant:
            doubtful.append(f"{' or '.join(meant)} for {', '.join(sorted(rivals))}")
    return found, doubtful


def read_map(path: str) -> dict[str, str]:
    """Returns the names of --map: of the first dump, by those of the second. Raises BadFileError for any other content."""
    try:
        table = tomllib.loads(read_regular(path, MAX_MAP_BYTES, follow=True).decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFileError(f"{path}: not TOML: {error}") from error
    names = table.get("names")
    if set(table) != {"names"} or not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
        raise BadFileError(f'{path}: wanted one table [names] with lines "name of B" = "name of A"')
    twice = [n for n, times in _count(names.values()).items() if times > 1]
    if twice:
        raise BadFileError(f"{path}: {printable(twice[0])!r} is given to several tensors of B")
    return {str(b): a for b, a in names.items()}


def apply_map(path: str, names: Mapping[str, str], first: Recording, second: Recording) -> str:
    """Gives tensors of the second dump the names of the map, and returns a note. Raises UsageError for a name that its
    dump does not have."""
    for name, side, where in [(b, second, "B") for b in names] + [(a, first, "A") for a in names.values()]:
        if name not in side.specs:
            raise UsageError(
                f"--map {path}: {printable(name)!r} is no tensor of {where}{did_you_mean(name, side.specs)}"
            )
    taken = [a for a in names.values() if a in second.specs and a not in names]
    if taken:
        raise UsageError(f"--map {path}: B has a tensor {printable(taken[0])!r} already; map that one, too")
    rename(second, names)
    return f"paired by --map: {count(len(names), 'tensor')}"


def draft_map(first: Recording, second: Recording) -> str:
    """Returns a map, as TOML, of the tensors without a partner; a line whose partner is a guess is a comment."""
    left, lines = (
        _alone(first, second, True),
        ["[names]  # name of B = name of A; correct the lines and remove their #"],
    )
    for name in _alone(second, first, True):
        near = closest_names(name, left, 1)
        lines.append(f"# {_quoted(name)} = {_quoted(near[0] if near else '')}")
    lines += [f"# of A, without a partner: {_quoted(name)}" for name in left]
    return "\n".join(lines) + "\n"


def rename(recording: Recording, names: Mapping[str, str]) -> None:
    """Gives tensors of a recording other names. names: the new one by the old one."""
    if not names:
        return
    tensors = recording.tensors
    recording.tensors = {names.get(n, n): tensors[n] for n in tensors}
    recording.specs = {names.get(n, n): replace(s, name=names.get(n, n)) for n, s in recording.specs.items()}
    recording.digests = {names.get(n, n): digest for n, digest in recording.digests.items()}
    recording.missing = {names.get(n, n): why for n, why in recording.missing.items()}
    recording.finals = tuple(names.get(n, n) for n in recording.finals)


def _fit_axes(first: Recording, second: Recording, names: Iterable[str]) -> list[str]:
    """Gives these tensors of the second dump the shapes of the first, where only axes of one element differ. Returns a note
    of what was changed; [] if nothing was."""
    given = {n for side in (first, second) for n in side.missing}
    fitted = [
        n
        for n in names
        if n not in given and second.specs[n].shape != first.specs[n].shape and _are_alike(first, second, n, n)
    ]
    if not fitted:
        return []
    arrays, specs = dict(second.tensors), dict(second.specs)
    for name in fitted:
        shape = first.specs[name].shape
        specs[name] = replace(specs[name], shape=shape, aligned_shape=shape, layout="")
        if name in arrays:
            arrays[name] = arrays[name].reshape(shape)
    second.tensors, second.specs = arrays, specs
    return [f"axes of one element added or removed: {len(fitted)}: {_listed(fitted)}"]


def _are_alike(first: Recording, second: Recording, a: str, b: str) -> bool:
    """Returns whether two tensors have the same shape but for axes of one element; one of channels is not moved."""
    x, y = first.specs[a], second.specs[b]
    dense = y.aligned_shape == y.shape and y.channel_axis < 0
    return x.shape == y.shape or (dense and [d for d in x.shape if d > 1] == [d for d in y.shape if d > 1])


def find_rewritings(name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that may be rewritings of a name, or it of them."""
    keys = _keys(name)
    return [other for other in names if other != name and keys & _keys(other)]


def without_partner(first: Recording, second: Recording) -> bool:
    """Returns whether both dumps have tensors that the other lacks, so that names may be the reason; one that could not be
    read without its partner counts."""
    return bool(_alone(first, second, True)) and bool(_alone(second, first, True))


def _alone(side: Recording, other: Recording, unread: bool = False) -> list[str]:
    """Returns the tensors that the other side lacks. unread: include those that are missing here."""
    return [
        n
        for n, s in side.specs.items()
        if n not in other.specs and (unread or n not in side.missing) and not s.interior
    ]


def _by_key(names: Collection[str]) -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for name in names:
        for key in _keys(name):
            found[key].add(name)
    return found


def _keys(name: str) -> set[str]:
    """Returns what the name, and each part of a fused name (`conv;relu`, `conv+relu`), is without known endings, spelled
    as in a file name."""
    parts = [name, *(part for part in re.split(r"[;+]", name) if part != name)]
    return {key for part in parts if (key := re.sub(r"[^A-Za-z0-9]+", "_", _without_endings(part)).strip("_"))}


def _without_endings(name: str) -> str:
    ending = next((e for e in ENDINGS if name.endswith(e) and name != e), "")
    return _without_endings(name.removesuffix(ending)) if ending else name


def _may_be(first: Recording, second: Recording, a: str, b: str) -> bool:
    """Returns whether real values of one side can be those of the quantized tensor of the other: a tool may also have
    dumped the values before they were quantized."""
    for side, name, other in ((first, a, second.specs[b]), (second, b, first.specs[a])):
        spec = side.specs[name]
        if other.quantized and spec.numpy_dtype.kind == "f" and not spec.quantized:
            values = side.tensors.get(name)
            if values is not None and values.size == prod(other.shape):
                values = values.reshape(other.shape)
            if values is None or values.shape != other.shape or isinstance(restore_codes(values, other), str):
                return False
    return _are_alike(first, second, a, b)


def _count(names: Iterable[str]) -> dict[str, int]:
    times = defaultdict[str, int](int)
    for name in names:
        times[name] += 1
    return times


def _listed(texts: Iterable[str]) -> str:
    shown = list(texts)
    more = f" and {len(shown) - MAX_LISTED} more" if len(shown) > MAX_LISTED else ""
    return ", ".join(map(printable, shown[:MAX_LISTED])) + more


def _quoted(name: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in name) + '"'
