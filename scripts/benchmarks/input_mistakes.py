"""Plants single and double mistakes, drawn by a seed, in inputs made from real photos, and measures whether `inputs
diff` names them and nothing that does not fit."""

from __future__ import annotations

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
from qverify.inputs.description_tables import parse_description
from qverify.inputs.difference import InputDifference, MistakeExplanation, explain_difference
from qverify.inputs.hypotheses import pages
from qverify.inputs.recipe import Recipe
from qverify.inputs.reproduction import Reproduction, Start
from qverify.mistakes import Mistake

from benchmarks import input_oracle, input_speed
from benchmarks.measure import show_figures

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
INDEPENDENT = 0.25  # share of the mistakes that input_oracle plants
SEARCH_S = 600.0  # limit of a search; so high that slow machines have the same results
GOAL = 0.95  # share of the mistakes that must be named


@dataclass(slots=True)
class Planted:
    """Inputs with planted mistakes.

    start: the correct input. data: the bytes with the mistakes. causes, families: names of the mistakes and of their
    families. recipe: how qverify made the bytes; None if the oracle made them.
    """

    start: Start
    data: bytes
    causes: tuple[str, ...]
    families: tuple[str, ...]
    recipe: Recipe | None

    def is_named(self, difference: InputDifference) -> bool:
        """Returns whether one of the exact explanations is the planted one."""
        causes = Counter(self.causes)
        listed = [explanation for group in difference.exact for explanation in group]
        return any(e.recipe == self.recipe or Counter(c.said for c in e.causes) == causes for e in listed)


@dataclass(slots=True)
class Score:
    """Results of all plantings of one kind.

    named: plantings whose mistakes are among the exact explanations. by_one: double mistakes that have the same bytes
    as a single one. independent, families: planted and named, of the oracle's mistakes and by family. groups, listed:
    number of answers and of explanations in each result.
    """

    planted: int = 0
    named: int = 0
    by_one: int = 0
    independent: list[int] = field(default_factory=lambda: [0, 0])
    groups: list[int] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    families: dict[str, list[int]] = field(default_factory=dict)

    def add(self, planted: Planted, difference: InputDifference, seconds: float) -> bool:
        """Counts a result and returns whether the mistakes were named."""
        by_one = len(planted.causes) == 2 and any(len(e.causes) == 1 for group in difference.exact for e in group)
        good = planted.is_named(difference) or by_one
        self.planted, self.named, self.by_one = self.planted + 1, self.named + good, self.by_one + by_one
        rows = [self.families.setdefault(name, [0, 0]) for name in planted.families]
        for row in [*rows, *([self.independent] if planted.recipe is None else [])]:
            row[0], row[1] = row[0] + 1, row[1] + good
        self.groups.append(len(difference.exact))
        self.listed.append(sum(len(group) for group in difference.exact))
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
    """Draws mistakes by a seed."""

    seed: int
    photos: list[tuple[str, Any, Any]]  # name, RGB, gray

    def draw(self, kind: str, number: int) -> Planted:
        """Returns the planting of this kind (single or double) and number."""
        rng = random.Random(f"{self.seed} {kind} {number}")
        planted = None
        while planted is None:
            from_oracle = rng.random() < INDEPENDENT
            planted = (self._plant_with_oracle if from_oracle else self._plant_variant)(
                rng, 2 if kind == "double" else 1
            )
        return planted

    def start(self, rng: random.Random, table: dict[str, Any]) -> Start:
        """Returns a photo as the correct input for a description."""
        description = parse_description(table, "bench")
        _, rgb, gray = rng.choice(self.photos)
        return Start("picture", gray, description, rgb) if description.gray else Start("picture", rgb, description)

    def _plant_variant(self, rng: random.Random, count: int) -> Planted | None:
        """Plants variants of the hypotheses; returns None if one of them changes nothing."""
        start = self.start(rng, _varied(rng))
        captured = int(
            start.wanted.size_bytes * rng.choice([0, 0.8, 1.1])
        )  # may differ from the full size, for the hypothesis `length`
        recipe, causes = start.intended(captured), list[Mistake]()
        previous = {Reproduction(start).make_bytes(recipe)}
        for _ in range(count):
            options = [
                (p.NAME, *v) for p in pages() if p.NAME not in {c.family for c in causes} for v in p.variants(recipe)
            ]
            family = rng.choice(sorted({o[0] for o in options}))
            _, cause, recipe = rng.choice([o for o in options if o[0] == family])
            causes.append(Mistake(family, cause))
            data = _made(start, recipe)
            if data in previous or not data:
                return None
            previous.add(data)
        if "length" in {c.family for c in causes} and len(data) != captured:
            return None
        return Planted(start, data, tuple(c.said for c in causes), tuple(c.family for c in causes), recipe)

    def _plant_with_oracle(self, rng: random.Random, count: int) -> Planted | None:
        """Plants mistakes made by input_oracle; returns None if they exclude each other or change nothing."""
        table = dict(rng.choice(CHECKED)) | {"size": rng.choice(SIZES), "interpolation": rng.choice(["linear", "area"])}
        if table["format"] not in ("nv12", "gray"):
            table["layout"] = rng.choice(["NHWC", "NCHW"])
        start = self.start(rng, table)
        plain = input_oracle.fed(start.values, table, {})
        if plain != Reproduction(start).make_bytes(start.intended(0)):
            raise SystemExit(f"the oracle and qverify make other bytes of {table}")
        mistakes, changed, causes, families = input_oracle.mistakes(table), dict[str, Any](), list[str](), list[str]()
        for cause in rng.sample(sorted(mistakes), count):
            family, changes = mistakes[cause]
            if family in families or changed.keys() & changes.keys():
                return None
            changed, causes, families = changed | changes, [*causes, cause], [*families, family]
        data = input_oracle.fed(start.values, table, changed)
        parts = [input_oracle.fed(start.values, table, mistakes[cause][1]) for cause in causes]
        if data == plain or (count > 1 and data in parts):
            return None
        return Planted(start, data, tuple(causes), tuple(families), None)


def _made(start: Start, recipe: Recipe) -> bytes:
    """Returns the bytes that a recipe makes."""
    with np.errstate(all="ignore"):
        return Reproduction(start).make_bytes(recipe)


def _varied(rng: random.Random) -> dict[str, Any]:
    """Returns a random description."""
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
    """Returns name, RGB and gray of the photos in the folder, or of three generated pictures if there are none."""
    files = sorted(p for p in folder.glob("*") if p.suffix in (".jpg", ".png")) if folder.is_dir() else []
    if files:
        return [(p.name, picture.read(str(p)), picture.read(str(p), gray=True)) for p in files]
    generator = np.random.Generator(np.random.PCG64(0))
    generated = []
    for at in range(3):
        small = generator.integers(0, 256, (6 + at, 8, 3), np.uint8)
        rgb = np.clip(np.kron(small, np.ones((60, 64, 1))) + generator.normal(0, 12, (360 + 60 * at, 512, 3)), 0, 255)
        generated.append((f"seeded {at}", rgb.astype(np.uint8), rgb[..., 1:2].astype(np.uint8)))
    return generated


def _false_explanations(planted: Planted, difference: InputDifference) -> Iterator[MistakeExplanation]:
    """Yields explanations that claim to be exact but do not reproduce the bytes when computed again from scratch."""
    for explanation in (e for group in difference.exact for e in group):
        if _made(planted.start, explanation.recipe) != planted.data:
            yield explanation


@dataclass(slots=True)
class Campaign:
    """All runs of the bench. false_exact: number of wrong explanations that claim to be exact."""

    planter: Planter
    scores: dict[str, Score] = field(default_factory=lambda: {"single": Score(), "double": Score()})
    false_exact: int = 0
    missed: list[str] = field(default_factory=list)

    def run(self, kind: str, count: int) -> None:
        """Makes the plantings of one kind and counts the results."""
        for number in range(count):
            planted, begun = self.planter.draw(kind, number), time.monotonic()
            difference = explain_difference(planted.start, planted.data, SEARCH_S)
            good = self.scores[kind].add(planted, difference, time.monotonic() - begun)
            self.false_exact += sum(1 for _ in _false_explanations(planted, difference))
            if not good:
                listed = [e.said for group in difference.exact for e in group][:4]
                self.missed.append(f"{kind} {number}: {' + '.join(planted.causes)}; listed {listed}")
                print(self.missed[-1], file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print(f"\r{kind} {number + 1} of {count}", end="", file=sys.stderr)

    def unknown(self, count: int) -> dict[str, int]:
        """Counts exact explanations of bytes that no known mistake makes: correct bytes with every tenth replaced by
        noise."""
        called_exact = 0
        for number in range(count):
            rng = random.Random(f"{self.planter.seed} unknown {number}")
            start = self.planter.start(rng, _varied(rng))
            data = np.frombuffer(_made(start, start.intended(0)), np.uint8).copy()
            data[::10] = np.frombuffer(rng.randbytes(len(data[::10])), np.uint8)
            difference = explain_difference(start, data.tobytes(), SEARCH_S)
            called_exact += bool(difference.exact or difference.equal)
        return {"planted": count, "called_exact": called_exact}


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench inputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same number draws the same")
    parser.add_argument("--single", type=int, default=500, help="runs with one mistake")
    parser.add_argument("--double", type=int, default=200, help="runs with two")
    parser.add_argument("--unknown", type=int, default=10, help="runs with a mistake that no hypothesis knows")
    parser.add_argument(
        "--pictures", type=Path, default=PHOTOS, help="a folder of photos; by default those of ../shared/models"
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
    show_figures(result, options.path)
    enough = all(s.named >= GOAL * s.planted for s in campaign.scores.values())
    return 0 if enough and result["false_exact"] == 0 else 1
