"""Seeded mistakes in inputs, single and double, over real photos: does `inputs diff` name them, and never what does not fit."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from qverify.inputs import picture
from qverify.inputs.description_tables import described
from qverify.inputs.difference import Difference, Mistake, MistakeExplanation, explain_difference
from qverify.inputs.hypotheses import pages
from qverify.inputs.recipe import Recipe
from qverify.inputs.reproduction import Reproduction, Start

from benchmarks import input_oracle, input_speed

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = ROOT.parent / "shared" / "models" / "inputs" / "images"
SIZES = ("224x224", "320x240", "96x96")
IMAGENET = {"mean": "123.675,116.28,103.53", "scale": "0.01712475,0.017507,0.01742919"}
FORMATS: list[dict[str, Any]] = [
    {"format": "rgb"},
    {"format": "bgr"},
    {"format": "rgba"},
    {"format": "rgb_128", "train": "rgb"},
    {"format": "gray"},
    {"format": "yuv444"},
    {"format": "nv12"},
    {"format": "nv12", "mode": "horizon"},
    {"format": "nv12", "mode": "bt709", "range": "limited", "siting": "mean"},
    {"format": "nv21", "mode": "bt601", "range": "full"},
    {"format": "i420", "mode": "sigmastar"},
    {"format": "featuremap", "train": "rgb", **IMAGENET},
    {"format": "featuremap", "train": "bgr", "mean": "104,117,123", "scale": "0.017"},
    {"format": "featuremap", "train": "rgb", **IMAGENET, "quantize": [0.0186, -14]},
    {"format": "raw_s16", "train": "rgb", "mean": "127.5", "scale": "0.0078125", "quantize": [0.0001, 0]},
]
CHECKED: list[dict[str, Any]] = [
    {"format": "rgb"},
    {"format": "bgr"},
    {"format": "gray"},
    {"format": "rgb_128"},
    {"format": "nv12"},
    {"format": "featuremap", "train": "rgb", **IMAGENET},
]
INDEPENDENT = 0.25  # of the mistakes, planted by input_oracle
SECONDS = 600.0  # of a search: a slow machine's figures are the same
GOAL = 0.95


@dataclass(slots=True)
class Planted:
    """causes: what they should be called, in any order. recipe: None where the oracle made the bytes."""

    start: Start
    data: bytes
    causes: tuple[str, ...]
    families: tuple[str, ...]
    recipe: Recipe | None

    def named(self, found: Difference) -> bool:
        said = Counter(self.causes)
        listed = [one for group in found.exact for one in group]
        return any(one.recipe == self.recipe or Counter(c.said for c in one.causes) == said for one in listed)


@dataclass(slots=True)
class Score:
    """named: among the exact causes. by_one: of doubles, those whose very bytes one mistake gives."""

    planted: int = 0
    named: int = 0
    by_one: int = 0
    independent: list[int] = field(default_factory=lambda: [0, 0])
    groups: list[int] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    families: dict[str, list[int]] = field(default_factory=dict)

    def add(self, planted: Planted, found: Difference, seconds: float) -> bool:
        by_one = len(planted.causes) == 2 and any(len(e.causes) == 1 for group in found.exact for e in group)
        good = planted.named(found) or by_one
        self.planted, self.named, self.by_one = self.planted + 1, self.named + good, self.by_one + by_one
        rows = [self.families.setdefault(name, [0, 0]) for name in planted.families]
        for row in [*rows, *([self.independent] if planted.recipe is None else [])]:
            row[0], row[1] = row[0] + 1, row[1] + good
        self.groups.append(len(found.exact))
        self.listed.append(sum(len(group) for group in found.exact))
        self.seconds.append(seconds)
        return good

    def to_json(self) -> dict[str, Any]:
        return {
            "planted": self.planted,
            "named": self.named,
            "explained_by_one": self.by_one,
            "independent": dict(zip(("planted", "named"), self.independent, strict=True)),
            "median_seconds": round(statistics.median(self.seconds), 2) if self.seconds else None,
            "longest_seconds": round(max(self.seconds), 2) if self.seconds else None,
            "by_family": {k: f"{good} of {all_}" for k, (all_, good) in sorted(self.families.items())},
        }


@dataclass(frozen=True, slots=True)
class Planter:
    seed: int
    photos: list[tuple[str, Any, Any]]  # name, RGB, gray

    def draw(self, kind: str, number: int) -> Planted:
        rng = random.Random(f"{self.seed} {kind} {number}")
        made = None
        while made is None:
            from_oracle = rng.random() < INDEPENDENT
            made = (self._independent if from_oracle else self._own)(rng, 2 if kind == "double" else 1)
        return made

    def start(self, rng: random.Random, table: dict[str, Any]) -> Start:
        wanted = described(table, "bench")
        _, rgb, gray = rng.choice(self.photos)
        return Start("picture", gray, wanted, rgb) if wanted.gray else Start("picture", rgb, wanted)

    def _own(self, rng: random.Random, count: int) -> Planted | None:
        """By the hypotheses' own variants; None where one of them changes nothing."""
        start = self.start(rng, _varied(rng))
        captured = int(start.wanted.size_bytes * rng.choice([0, 0.8, 1.1]))  # what `length` may make of it
        recipe, causes = start.intended(captured), list[Mistake]()
        seen = {Reproduction(start).made(recipe)}
        for _ in range(count):
            options = [
                (p.NAME, *v) for p in pages() if p.NAME not in {c.family for c in causes} for v in p.variants(recipe)
            ]
            family = rng.choice(sorted({o[0] for o in options}))
            _, said, recipe = rng.choice([o for o in options if o[0] == family])
            causes.append(Mistake(family, said))
            data = _made(start, recipe)
            if data in seen or not data:
                return None
            seen.add(data)
        if "length" in {c.family for c in causes} and len(data) != captured:
            return None
        return Planted(start, data, tuple(c.said for c in causes), tuple(c.family for c in causes), recipe)

    def _independent(self, rng: random.Random, count: int) -> Planted | None:
        table = dict(rng.choice(CHECKED)) | {"size": rng.choice(SIZES), "interpolation": rng.choice(["linear", "area"])}
        if table["format"] not in ("nv12", "gray"):
            table["layout"] = rng.choice(["NHWC", "NCHW"])
        start = self.start(rng, table)
        plain = input_oracle.fed(start.values, table, {})
        if plain != Reproduction(start).made(start.intended(0)):
            raise SystemExit(f"the oracle and qverify make other bytes of {table}")
        known, did, causes, families = input_oracle.mistakes(table), dict[str, Any](), list[str](), list[str]()
        for said in rng.sample(sorted(known), count):
            family, changes = known[said]
            if family in families or did.keys() & changes.keys():
                return None
            did, causes, families = did | changes, [*causes, said], [*families, family]
        data = input_oracle.fed(start.values, table, did)
        parts = [input_oracle.fed(start.values, table, known[said][1]) for said in causes]
        if data == plain or (count > 1 and data in parts):
            return None
        return Planted(start, data, tuple(causes), tuple(families), None)


def _made(start: Start, recipe: Recipe) -> bytes:
    with np.errstate(all="ignore"):
        return Reproduction(start).made(recipe)


def _varied(rng: random.Random) -> dict[str, Any]:
    table: dict[str, Any] = dict(rng.choice(FORMATS)) | {"size": rng.choice(SIZES)}
    table |= {"interpolation": rng.choice(["nearest", "linear", "linear", "cubic", "area"])}
    table |= {
        "library": rng.choice(["cv2", "cv2", "pillow"]),
        "fit": rng.choice(["stretch", "stretch", "crop", "letterbox"]),
    }
    table |= {"resize_dtype": rng.choice(["uint8", "uint8", "uint8", "float32"]), "fill": rng.choice([0, 114])}
    if rng.random() < 0.3:
        table |= {"width_align": rng.choice([16, 64, 128]), "buffer_align": rng.choice([1, 64])}
    return table | {"layout": rng.choice(["NHWC", "NCHW"])}


def _photos(folder: Path) -> list[tuple[str, Any, Any]]:
    """The real ones; where they are not, three seeded pictures, smooth and noisy."""
    found = sorted(p for p in folder.glob("*") if p.suffix in (".jpg", ".png")) if folder.is_dir() else []
    if found:
        return [(p.name, picture.read(str(p)), picture.read(str(p), gray=True)) for p in found]
    generator = np.random.Generator(np.random.PCG64(0))
    made = []
    for at in range(3):
        small = generator.integers(0, 256, (6 + at, 8, 3), np.uint8)
        rgb = np.clip(np.kron(small, np.ones((60, 64, 1))) + generator.normal(0, 12, (360 + 60 * at, 512, 3)), 0, 255)
        made.append((f"seeded {at}", rgb.astype(np.uint8), rgb[..., 1:2].astype(np.uint8)))
    return made


def _false(planted: Planted, found: Difference) -> Iterator[MistakeExplanation]:
    """Claimed as exact, and not so when it is made anew, nothing kept from the search."""
    for one in (e for group in found.exact for e in group):
        if _made(planted.start, one.recipe) != planted.data:
            yield one


@dataclass(slots=True)
class Campaign:
    planter: Planter
    scores: dict[str, Score] = field(default_factory=lambda: {"single": Score(), "double": Score()})
    false_exact: int = 0
    missed: list[str] = field(default_factory=list)

    def run(self, kind: str, count: int) -> None:
        for number in range(count):
            planted, begun = self.planter.draw(kind, number), time.monotonic()
            found = explain_difference(planted.start, planted.data, SECONDS)
            good = self.scores[kind].add(planted, found, time.monotonic() - begun)
            self.false_exact += sum(1 for _ in _false(planted, found))
            if not good:
                listed = [one.said for group in found.exact for one in group][:4]
                self.missed.append(f"{kind} {number}: {' + '.join(planted.causes)}; listed {listed}")
                print(self.missed[-1], file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print(f"\r{kind} {number + 1} of {count}", end="", file=sys.stderr)

    def unknown(self, count: int) -> dict[str, int]:
        """Bytes that no known mistake makes: the intended ones, every tenth replaced by noise."""
        called = 0
        for number in range(count):
            rng = random.Random(f"{self.planter.seed} unknown {number}")
            start = self.planter.start(rng, _varied(rng))
            data = np.frombuffer(_made(start, start.intended(0)), np.uint8).copy()
            data[::10] = np.frombuffer(rng.randbytes(len(data[::10])), np.uint8)
            called += bool((found := explain_difference(start, data.tobytes(), SECONDS)).exact or found.equal)
        return {"planted": count, "called_exact": called}


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench inputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same number draws the same")
    parser.add_argument("--single", type=int, default=500, help="runs with one mistake")
    parser.add_argument("--double", type=int, default=200, help="runs with two")
    parser.add_argument("--unknown", type=int, default=10, help="runs with a mistake that no hypothesis knows")
    parser.add_argument(
        "--pictures", type=Path, default=PHOTOS, help="a folder of photos; those of ../shared/models without it"
    )
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    speed = input_speed.measured()
    photos, begun = _photos(options.pictures), time.monotonic()
    campaign = Campaign(Planter(options.seed, photos))
    for kind in campaign.scores:
        campaign.run(kind, getattr(options, kind))
    unknown = campaign.unknown(options.unknown)
    groups, listed = ([n for s in campaign.scores.values() for n in getattr(s, name)] for name in ("groups", "listed"))
    result = {
        "seed": options.seed,
        "pictures": [name for name, _, _ in photos],
        **{kind: score.to_json() for kind, score in campaign.scores.items()},
        "median_list": statistics.median(groups) if groups else None,
        "median_list_with_the_same_bytes": statistics.median(listed) if listed else None,
        "false_exact": campaign.false_exact + unknown["called_exact"],
        "unknown": unknown,
        **speed,
        "seconds": round(time.monotonic() - begun, 1),
        "missed": campaign.missed,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.path:
        Path(options.path).write_text(text + "\n")
    enough = all(s.named >= GOAL * s.planted for s in campaign.scores.values())
    return 0 if enough and result["false_exact"] == 0 else 1
