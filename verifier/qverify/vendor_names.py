"""Finds the maker of chips that a word means, so that every option takes every spelling of its name and of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable

OTHER_NAMES = {  # the maker's page of `qverify chips`, and further names
    "axera": ("pulsar", "pulsar2"),
    "espressif": ("esp", "esp-dl", "esp-ppq", ".info"),
    "hailo": ("hailort",),
    "horizon": ("d-robotics", "drobotics", "hobot", "bpu"),
    "microcontrollers": ("arm", "ambiq", "nordic", "tflm", "cmsis-nn", "ethos-u", "vela"),
    "nxp": ("eiq", "imx", "i.mx", "neutron"),
    "qualcomm": (
        *(
            "qnn",
            "snpe",
            "htp",
            "qairt",
            "hexagon",
            "qnn-net-run",
            "snpe-net-run",
            "qairt-quantizer",
            "qairt-converter",
        ),
        *("encodings", ".encodings", "encodings.json", "onnxruntime-qnn", "Result_0"),
    ),
    "renesas": ("rcar", "r-car", "rzv", "drp-ai"),
    "rockchip": ("rknn", "rknpu", "rknn-toolkit2"),
    "sigmastar": ("sgs", "sigma"),
    "sophgo": ("cvitek", "tpu-mlir", "bmodel", "milk-v"),
    "st": ("stm", "stm32", "stmicroelectronics", "stedgeai", "x-cube-ai"),
    "ti": ("tidl", "texas-instruments", "edgeai", "edgeai-tidl-tools", "tidl_trace", "layer_info"),
}


def plain_name(word: str) -> str:
    """Returns the word in small letters, without anything but letters and digits."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


def known_spelling(word: str, known: Iterable[str]) -> str:
    """Returns that of the known names which is the word, or else means the same maker; the word itself if none does."""
    plain, known = plain_name(word), [*known]
    if own := next((name for name in known if plain_name(name) == plain), ""):
        return own
    names = next(
        (
            {plain_name(n) for n in (name, *others)}
            for name, others in OTHER_NAMES.items()
            if plain in map(plain_name, (name, *others))
        ),
        {plain},
    )
    return next((name for name in known if plain_name(name) in names), word)
