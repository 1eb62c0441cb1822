"""A vendor's dump as a side: its tensors under the other side's names, in the other side's axes; what cannot be told is missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qverify_agents.printable import one_line

from qverify.sides.dumps.vendor_axes import Unsettled
from qverify.sides.dumps.vendor_forms import check_forms_agree
from qverify.sides.dumps.vendor_names import NamedTensor, PairedNames, by_index, common_spelling, pair_names
from qverify.sides.dumps.vendor_tensor import SettledTensor, loader, settle_tensor
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import VendorDump, VendorTensor

SHOWN = 3


@dataclass(slots=True)
class OtherSide:
    """What a dump is held against. specs: of the other side, by its names. dump: that side, where it is a vendor's, too,
    and specs does not have all of it. model: specs of -m, and outputs in its order."""

    specs: Mapping[str, TensorSpec]
    dump: VendorDump | None = None
    model: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def record_dump(dump: VendorDump, path: str, side: str, against: OtherSide, dtypes: Mapping[str, str]) -> Recording:
    """Specs of what could be settled; every other tensor, and every name in doubt, is missing with its reason. dtypes: of
    --dtype. notes: what was done to the values."""
    dump.tensors = [replace(t, name=one_line(t.name), others=tuple(map(one_line, t.others))) for t in dump.tensors]
    dump.missing = {one_line(name): why for name, why in dump.missing.items()}
    twice = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "the dump holds it twice" for (name, _), count in twice.items() if count > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    reading = _Reading(dump, path, against, dtypes)
    groups = _groups(dump)
    found = _pairs(groups, against, dump)
    reading.missing = {**dump.missing, **found.doubtful}
    for name, tensors in groups.items():
        if tensors[0].fed and name not in found.to:
            reading.say("inputs of the network that the other side does not have: not compared", name)
        elif name not in found.doubtful:
            reading.settle(found.to.get(name) or name, tensors, against.specs.get(found.to.get(name, "")))
    renamed = [f"{n} is {t}" for n, t in found.to.items() if n != t]
    if renamed:
        reading.say("names spelled as the vendor does", *renamed)
    return reading.recording(side)


class _Reading:
    """What has been settled so far, what is missing, and what has to be said of it."""

    def __init__(self, dump: VendorDump, path: str, against: OtherSide, dtypes: Mapping[str, str]):
        self.dump, self.path, self.against, self.dtypes = dump, path, against, dtypes
        self.held: dict[str, SettledTensor] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.missing: dict[str, str] = {}
        self.said: dict[str, list[str]] = {}

    def say(self, text: str, *names: str) -> None:
        self.said.setdefault(text, []).extend(names)

    def settle(self, name: str, tensors: list[VendorTensor], other: TensorSpec | None) -> None:
        """The first of its files that can be read for sure, the others held to it; else it is missing, with the reason of
        the first. BadFileError where its files contradict one another."""
        model, why = _of_model(name, self.dump, self.against), ""
        for tensor in _fitting(tensors, other):
            asked = self.dtypes.get(name) or self.dtypes.get(tensor.name) or self.dtypes.get("", "")
            try:
                found = settle_tensor(name, tensor, other, model, asked if len(tensor.dtypes) > 1 else "")
                known = [spec for spec in (model, other) if spec is not None]
                found.said += [check_forms_agree(found, twin, known) for twin in tensors if twin is not tensor]
            except Unsettled as reason:
                why = why or f"{tensor.where.removeprefix(os.path.join(os.path.realpath(self.path), ''))}: {reason}"
                continue
            self.held[name], self.specs[name] = found, found.spec
            for text in found.said:
                self.say(text, name)
            return
        self.missing[name] = why
        self.specs[name] = other or TensorSpec(name, _numpy(tensors[0].dtypes[0]), tensors[0].shape or ())

    def recording(self, side: str) -> Recording:
        engine = f"{self.dump.profile} dump {os.path.basename(os.path.normpath(self.path))}"
        made = Recording(side, engine, specs=self.specs, missing=self.missing)
        made.settings["profile"] = self.dump.profile
        made.tensors = Tensors({name: loader(s) for name, s in self.held.items()})
        for name in self.missing:
            self.specs.setdefault(name, self.against.specs.get(name) or TensorSpec(name, "float32", ()))
        known = [s.decimals for s in self.held.values() if s.decimals is not None]
        if known:
            made.settings["precision"] = min(known)
        told = [f"{self.dump.profile}: {t}: {len(n)}: {_some(n)}" for t, n in self.said.items()]
        made.notes = [one_line(note) for note in (*self.dump.notes, *told)]
        made.missing = {name: one_line(why) for name, why in self.missing.items()}
        return made


def _numpy(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")


def _groups(dump: VendorDump) -> dict[str, list[VendorTensor]]:
    """All files of one tensor together."""
    found: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        found.setdefault(tensor.name, []).append(tensor)
    return found


def _named(groups: Mapping[str, list[VendorTensor]]) -> list[NamedTensor]:
    return [NamedTensor((n, *g[0].others), g[0].index) for n, g in groups.items()]


def _pairs(groups: Mapping[str, list[VendorTensor]], against: OtherSide, dump: VendorDump) -> PairedNames:
    if against.dump is not None:
        other = _named(_groups(against.dump))
        spelled = common_spelling(dump.written, against.dump.written)
    else:
        other = [NamedTensor((name,)) for name in against.specs]
        spelled = common_spelling(dump.written, None)
    found = pair_names(_named(groups), other, spelled, against.model)
    if against.outputs and against.dump is None:
        by_index(found, _named(groups), against.outputs, set(against.specs))
    return found


def _of_model(name: str, dump: VendorDump, against: OtherSide) -> TensorSpec | None:
    """The model's tensor of that name, as the vendor spells it; None where that is none or several."""
    if name in against.model:
        return against.model[name]
    spelled = common_spelling(dump.written, None)
    same = [spec for true, spec in against.model.items() if spelled(true) == spelled(name)]
    return same[0] if len(same) == 1 else None


def _fitting(tensors: list[VendorTensor], other: TensorSpec | None) -> list[VendorTensor]:
    """Several files of one tensor, the one most like the other side first: of its dtype, then of real values, or of its
    dtype should the file be of it."""
    real = other is None or other.numpy_dtype.kind == "f"

    def rank(tensor: VendorTensor) -> int:
        told, same = len(tensor.dtypes) == 1, other is not None and other.dtype in tensor.dtypes
        if told and same:
            return 0
        return (1 if told and tensor.dtypes[0].startswith("float") else 2) if real else (1 if same else 2)

    return sorted(tensors, key=rank)


def declared_specs(dump: VendorDump) -> dict[str, TensorSpec]:
    """What a dump tells of its tensors by itself, for the other side to be held against."""
    found = {}
    for name, tensors in _groups(dump).items():
        tensor = _fitting(tensors, None)[0]
        if len(tensor.dtypes) == 1 and tensor.shape is not None:
            spec = TensorSpec(name, _numpy(tensor.dtypes[0]), tensor.shape, layout=tensor.layout)
            single = len(tensor.scale) == 1
            found[name] = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point) if single else spec
    return found


def align_profiles(a: VendorDump, b: VendorDump) -> None:
    """Two dumps of one profile: every form of a tensor that both have stands for itself, and where neither tells the
    dtype, equal bytes are equal whatever it is."""
    forms = [{n: {t.form for t in g} for n, g in _groups(dump).items()} for dump in (a, b)]
    for dump in (a, b):
        kept = []
        for tensor in dump.tensors:
            both_have = set.intersection(*(f.get(tensor.name, set()) for f in forms))
            if tensor.form in both_have:
                label = f"{tensor.name} {tensor.form}" if len(both_have) > 1 else tensor.name
                tensor = replace(tensor, name=label, form="")
            kept.append(tensor)  # what the other side lacks is held to what it has
        dump.tensors = kept
    there = {(t.name, t.form): t for t in b.tensors}
    pairs = [(one, there[one.name, one.form]) for one in a.tensors if (one.name, one.form) in there]
    equal = {(one.name, one.form) for one, two in pairs if _untold(one, two) and one.read() == two.read()}
    for dump in (a, b) if equal else ():
        dump.tensors = [replace(t, dtypes=t.dtypes[:1]) if (t.name, t.form) in equal else t for t in dump.tensors]
    if equal:
        names = sorted(name for name, _ in equal)
        a.notes.append(f"{a.profile}: {len(equal)} tensors hold equal bytes, of whichever type: {_some(names)}")


def _untold(one: VendorTensor, two: VendorTensor) -> bool:
    """The same shape, and types that neither tells."""
    same = (one.dtypes, one.shape, one.size_bytes) == (two.dtypes, two.shape, two.size_bytes)
    return same and len(one.dtypes) > 1 and one.shape is not None
