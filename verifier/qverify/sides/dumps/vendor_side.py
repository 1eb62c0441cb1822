"""A vendor's dump as a side: its tensors under the other side's names and in its axes; ambiguous ones are missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qverify_agents.printable import one_line

from qverify.plural import count
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
    """What a dump is compared with. specs: those of the other side, by its names. dump: that side, if it is a vendor's
    dump too and specs is not complete. model: specs of -m. outputs: names of its final outputs, in order."""

    specs: Mapping[str, TensorSpec]
    dump: VendorDump | None = None
    model: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def record_dump(dump: VendorDump, path: str, side: str, against: OtherSide, dtypes: Mapping[str, str]) -> Recording:
    """Returns the dump as a side. A tensor that cannot be read for certain, or a doubtful name, is missing with its
    reason. The notes say how values were converted. dtypes: of --dtype, by tensor name."""
    dump.tensors = [replace(t, name=one_line(t.name), others=tuple(map(one_line, t.others))) for t in dump.tensors]
    dump.missing = {one_line(name): why for name, why in dump.missing.items()}
    twice = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "the dump contains it twice" for (name, _), times in twice.items() if times > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    reading = _Reading(dump, path, against, dtypes)
    groups = _groups(dump)
    pairs = _pairs(groups, against, dump)
    reading.missing = {**dump.missing, **pairs.doubtful}
    for name, tensors in groups.items():
        if tensors[0].fed and name not in pairs.to:
            reading.say("inputs of the network that the other side does not have: not compared", name)
        elif name not in pairs.doubtful:
            reading.settle(pairs.to.get(name) or name, tensors, against.specs.get(pairs.to.get(name, "")))
    renamed = [f"{n} is {t}" for n, t in pairs.to.items() if n != t]
    if renamed:
        reading.say("names in the vendor's spelling", *renamed)
    return reading.recording(side)


class _Reading:
    """The tensors read so far, the missing ones, and notes on them."""

    def __init__(self, dump: VendorDump, path: str, against: OtherSide, dtypes: Mapping[str, str]):
        self.dump, self.path, self.against, self.dtypes = dump, path, against, dtypes
        self.held: dict[str, SettledTensor] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.missing: dict[str, str] = {}
        self.said: dict[str, list[str]] = {}

    def say(self, text: str, *names: str) -> None:
        self.said.setdefault(text, []).extend(names)

    def settle(self, name: str, tensors: list[VendorTensor], other: TensorSpec | None) -> None:
        """Takes the first of the tensor's files that can be read for certain and compares the others with it; without
        one, the tensor is missing with the reason of the first. Raises BadFileError where its files contradict each
        other."""
        model, why = _model_spec(name, self.dump, self.against), ""
        for tensor in _fitting(tensors, other):
            dtype = self.dtypes.get(name) or self.dtypes.get(tensor.name) or self.dtypes.get("", "")
            try:
                settled = settle_tensor(name, tensor, other, model, dtype if len(tensor.dtypes) > 1 else "")
                known = [spec for spec in (model, other) if spec is not None]
                settled.said += [check_forms_agree(settled, twin, known) for twin in tensors if twin is not tensor]
            except Unsettled as reason:
                why = why or f"{tensor.where.removeprefix(os.path.join(os.path.realpath(self.path), ''))}: {reason}"
                continue
            self.held[name], self.specs[name] = settled, settled.spec
            for text in settled.said:
                self.say(text, name)
            return
        self.missing[name] = why
        self.specs[name] = other or TensorSpec(name, _numpy(tensors[0].dtypes[0]), tensors[0].shape or ())

    def recording(self, side: str) -> Recording:
        engine = f"{self.dump.profile} dump {os.path.basename(os.path.normpath(self.path))}"
        result = Recording(side, engine, specs=self.specs, missing=self.missing)
        result.settings["profile"] = self.dump.profile
        result.tensors = Tensors({name: loader(s) for name, s in self.held.items()})
        for name in self.missing:
            self.specs.setdefault(name, self.against.specs.get(name) or TensorSpec(name, "float32", ()))
        known = [s.decimals for s in self.held.values() if s.decimals is not None]
        if known:
            result.settings["precision"] = min(known)
        notes = [f"{self.dump.profile}: {t}: {len(n)}: {_some(n)}" for t, n in self.said.items()]
        result.notes = [one_line(note) for note in (*self.dump.notes, *notes)]
        result.missing = {name: one_line(why) for name, why in self.missing.items()}
        return result


def _numpy(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")


def _groups(dump: VendorDump) -> dict[str, list[VendorTensor]]:
    """Returns the files of each tensor, by name."""
    groups: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        groups.setdefault(tensor.name, []).append(tensor)
    return groups


def _named(groups: Mapping[str, list[VendorTensor]]) -> list[NamedTensor]:
    return [NamedTensor((n, *g[0].others), g[0].index) for n, g in groups.items()]


def _pairs(groups: Mapping[str, list[VendorTensor]], against: OtherSide, dump: VendorDump) -> PairedNames:
    if against.dump is not None:
        other = _named(_groups(against.dump))
        spelled = common_spelling(dump.written, against.dump.written)
    else:
        other = [NamedTensor((name,)) for name in against.specs]
        spelled = common_spelling(dump.written, None)
    pairs = pair_names(_named(groups), other, spelled, against.model)
    if against.outputs and against.dump is None:
        by_index(pairs, _named(groups), against.outputs, set(against.specs))
    return pairs


def _model_spec(name: str, dump: VendorDump, against: OtherSide) -> TensorSpec | None:
    """Returns the model's tensor of this name in the vendor's spelling; None where there is none, or several."""
    if name in against.model:
        return against.model[name]
    spelled = common_spelling(dump.written, None)
    same = [spec for true, spec in against.model.items() if spelled(true) == spelled(name)]
    return same[0] if len(same) == 1 else None


def _fitting(tensors: list[VendorTensor], other: TensorSpec | None) -> list[VendorTensor]:
    """Sorts the files of one tensor, the most similar to the other side first: those of its dtype, then real values or,
    if it has integers, those that may have its dtype."""
    real = other is None or other.numpy_dtype.kind == "f"

    def rank(tensor: VendorTensor) -> int:
        stated, same = len(tensor.dtypes) == 1, other is not None and other.dtype in tensor.dtypes
        if stated and same:
            return 0
        return (1 if stated and tensor.dtypes[0].startswith("float") else 2) if real else (1 if same else 2)

    return sorted(tensors, key=rank)


def declared_specs(dump: VendorDump) -> dict[str, TensorSpec]:
    """Returns the specs that a dump states by itself, for the other side to be compared with."""
    specs = {}
    for name, tensors in _groups(dump).items():
        tensor = _fitting(tensors, None)[0]
        if len(tensor.dtypes) == 1 and tensor.shape is not None:
            spec = TensorSpec(name, _numpy(tensor.dtypes[0]), tensor.shape, layout=tensor.layout)
            single = len(tensor.scale) == 1
            specs[name] = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point) if single else spec
    return specs


def align_profiles(a: VendorDump, b: VendorDump) -> None:
    """Prepares two dumps of one profile: each form of a tensor that both have becomes a tensor of its own, and where
    neither states the dtype, equal bytes count as equal values."""
    forms = [{n: {t.form for t in g} for n, g in _groups(dump).items()} for dump in (a, b)]
    for dump in (a, b):
        kept = []
        for tensor in dump.tensors:
            both_have = set.intersection(*(f.get(tensor.name, set()) for f in forms))
            if tensor.form in both_have:
                label = f"{tensor.name} {tensor.form}" if len(both_have) > 1 else tensor.name
                tensor = replace(tensor, name=label, form="")
            kept.append(tensor)  # a form that the other side lacks is compared with the one it has
        dump.tensors = kept
    theirs = {(t.name, t.form): t for t in b.tensors}
    pairs = [(one, theirs[one.name, one.form]) for one in a.tensors if (one.name, one.form) in theirs]
    equal = {(one.name, one.form) for one, two in pairs if _same_unknown_type(one, two) and one.read() == two.read()}
    for dump in (a, b) if equal else ():
        dump.tensors = [replace(t, dtypes=t.dtypes[:1]) if (t.name, t.form) in equal else t for t in dump.tensors]
    if equal:
        names = sorted(name for name, _ in equal)
        a.notes.append(
            f"{a.profile}: {count(len(equal), 'tensor', 'has', 'have')} equal bytes, of any type: {_some(names)}"
        )


def _same_unknown_type(one: VendorTensor, two: VendorTensor) -> bool:
    """Tells whether both have the same shape and neither states its dtype."""
    same = (one.dtypes, one.shape, one.size_bytes) == (two.dtypes, two.shape, two.size_bytes)
    return same and len(one.dtypes) > 1 and one.shape is not None
