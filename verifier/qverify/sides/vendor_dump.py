"""A vendor's dump as a side: its tensors under the other side's names, in the other side's axes; what cannot be told is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qverify.sides.vendor_layout import Unsettled
from qverify.sides.vendor_names import Named, Paired, both, by_index, paired
from qverify.sides.vendor_tensor import Settled, loader, settled
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.tensors.vendor import VendorDump, VendorTensor

SHOWN = 3


@dataclass(slots=True)
class Against:
    """What a dump is held against. specs: of the other side, by its names. dump: that side, where it is a vendor's, too,
    and specs does not have all of it. model: specs of -m, and outputs in its order."""

    specs: Mapping[str, TensorSpec]
    dump: VendorDump | None = None
    model: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def recorded(dump: VendorDump, path: str, side: str, against: Against, dtypes: Mapping[str, str]) -> Recording:
    """Specs of what could be settled; every other tensor, and every name in doubt, is missing with its reason. dtypes: of
    --dtype. notes: what was done to the values."""
    groups = _groups(dump)
    found = _pairs(groups, against, dump)
    recording = Recording(side, f"{dump.profile} dump {os.path.basename(os.path.normpath(path))}", finals=())
    recording.settings["profile"] = dump.profile
    recording.missing = {**dump.missing, **found.doubtful}
    held: dict[str, Settled] = {}
    said = _Said()
    for name, tensors in groups.items():
        to = found.to.get(name, "")
        other = against.specs.get(to)
        tensor = _fitting(tensors, other)
        if tensor.fed and not to:
            said.add("inputs of the network that the other side does not have: not compared", name)
        elif name not in found.doubtful:
            _settle(recording, held, said, to or name, tensor, other, _of_model(to or name, dump, against), dtypes)
    recording.tensors = Tensors({name: loader(s) for name, s in held.items()})
    for name in recording.missing:
        recording.specs.setdefault(name, against.specs.get(name) or TensorSpec(name, "float32", ()))
    known = [s.decimals for s in held.values() if s.decimals is not None]
    if known:
        recording.settings["precision"] = min(known)
    renamed = [f"{n} is {t}" for n, t in found.to.items() if n != t]
    if renamed:
        said.lines.append(f"{len(renamed)} names spelled as the vendor does: {_some(renamed)}")
    recording.notes = [*dump.notes, *(f"{dump.profile}: {line}" for line in said.all())]
    return recording


class _Said:
    """What was done, once, with the tensors it was done to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.by_text: dict[str, list[str]] = {}

    def add(self, text: str, name: str) -> None:
        self.by_text.setdefault(text, []).append(name)

    def all(self) -> list[str]:
        return [*self.lines, *(f"{text}: {len(n)} tensors: {_some(n)}" for text, n in self.by_text.items())]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")


def _groups(dump: VendorDump) -> dict[str, list[VendorTensor]]:
    """All files of one tensor together."""
    found: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        found.setdefault(tensor.name, []).append(tensor)
    return found


def _named(groups: Mapping[str, list[VendorTensor]]) -> list[Named]:
    return [Named((n, *g[0].others), g[0].index) for n, g in groups.items()]


def _pairs(groups: Mapping[str, list[VendorTensor]], against: Against, dump: VendorDump) -> Paired:
    if against.dump is not None:
        other = _named(_groups(against.dump))
        spelled = both(dump.written, against.dump.written)
    else:
        other = [Named((name,)) for name in against.specs]
        spelled = both(dump.written, None)
    found = paired(_named(groups), other, spelled, against.model)
    if against.outputs and against.dump is None:
        by_index(found, _named(groups), against.outputs, set(against.specs))
    return found


def _of_model(name: str, dump: VendorDump, against: Against) -> TensorSpec | None:
    """The model's tensor of that name, as the vendor spells it; None where that is none or several."""
    if name in against.model:
        return against.model[name]
    spelled = both(dump.written, None)
    same = [spec for true, spec in against.model.items() if spelled(true) == spelled(name)]
    return same[0] if len(same) == 1 else None


def _fitting(tensors: list[VendorTensor], other: TensorSpec | None) -> VendorTensor:
    """Of several files of one tensor, the one of the other side's dtype, else the one of real values."""
    exact = [t for t in tensors if other is not None and other.dtype in t.dtypes]
    return (exact or [t for t in tensors if "float32" in t.dtypes] or tensors)[0]


def _settle(
    recording: Recording,
    held: dict[str, Settled],
    said: _Said,
    name: str,
    tensor: VendorTensor,
    other: TensorSpec | None,
    model: TensorSpec | None,
    dtypes: Mapping[str, str],
) -> None:
    asked = dtypes.get(name) or dtypes.get(tensor.name) or dtypes.get("", "")
    if asked and len(tensor.dtypes) == 1:
        asked = ""
    try:
        found = settled(name, tensor, other, model, asked)
    except Unsettled as why:
        recording.missing[name] = f"{os.path.basename(tensor.where)}: {why}"
        recording.specs[name] = other or TensorSpec(name, tensor.dtypes[0], tensor.shape or ())
        return
    held[name], recording.specs[name] = found, found.spec
    for text in found.said:
        said.add(text, name)


def declared(dump: VendorDump) -> dict[str, TensorSpec]:
    """What a dump tells of its tensors by itself, for the other side to be held against."""
    found = {}
    for name, tensors in _groups(dump).items():
        tensor = _fitting(tensors, None)
        if len(tensor.dtypes) == 1 and tensor.shape is not None:
            dtype = "float32" if tensor.dtypes[0] == "bfloat16" else tensor.dtypes[0]
            spec = TensorSpec(name, dtype, tensor.shape, layout=tensor.layout)
            single = len(tensor.scale) == 1
            found[name] = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point) if single else spec
    return found


def alike(a: VendorDump, b: VendorDump) -> None:
    """Two dumps of one profile: each form of a tensor stands for itself, and where neither tells the dtype, equal bytes
    are equal whatever it is."""
    for dump in (a, b):
        dump.tensors = [replace(t, name=f"{t.name} {t.form}" if t.form else t.name, form="") for t in dump.tensors]
    there = {t.name: t for t in b.tensors}
    equal = set()
    for one in a.tensors:
        two = there.get(one.name)
        if two is not None and len(one.dtypes) > 1 and (one.dtypes, one.shape) == (two.dtypes, two.shape):
            if one.size_bytes == two.size_bytes and one.shape is not None and one.read() == two.read():
                equal.add(one.name)
    for dump in (a, b) if equal else ():
        dump.tensors = [replace(t, dtypes=t.dtypes[:1]) if t.name in equal else t for t in dump.tensors]
    if equal:
        a.notes.append(f"{a.profile}: {len(equal)} tensors hold equal bytes, of whichever type: {_some(sorted(equal))}")
