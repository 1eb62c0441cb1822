"""Reads a .wav file of 16-bit PCM as the input of an audio network."""

from __future__ import annotations

import wave
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import MAX_SAMPLES

Array = npt.NDArray[Any]


def read(path: str) -> Array:
    """Returns int16 samples (1, frames, channels). Raises UsageError for another coding, and for a file that is empty
    or truncated."""
    try:
        with wave.open(path, "rb") as sound:
            frames, channels, width = sound.getnframes(), sound.getnchannels(), sound.getsampwidth()
            if width != 2:
                raise UsageError(f"{path}: {8 * width}-bit samples, wanted 16-bit PCM")
            if not 0 < frames <= MAX_SAMPLES:
                raise UsageError(f"{path}: {frames} samples; wanted 1 to {MAX_SAMPLES}")
            data = sound.readframes(frames)
    except (OSError, EOFError, wave.Error) as error:
        raise UsageError(f"{path}: not a readable .wav: {str(error) or 'it is cut short'}") from error
    if len(data) != frames * channels * 2:
        raise UsageError(f"{path}: cut short: {len(data)} bytes of samples, wanted {frames * channels * 2}")
    return np.frombuffer(data, "<i2").reshape(1, frames, channels).astype(np.int16)


def fit_samples(samples: Array, wanted: Description, path: str) -> Array:
    """Returns as many samples as the description's size, SAMPLESx1, states. With fit `stretch` their number must match;
    `crop` takes the first samples; `letterbox` adds zeros. Raises UsageError if the samples do not fit."""
    width, height = wanted.size
    count = samples.shape[1]
    if height != 1 or samples.shape[2] != wanted.channels:
        channels = f"{samples.shape[2]} channels" if samples.shape[2] != wanted.channels else f"size {width}x{height}"
        raise UsageError(
            f"{path}: {channels}; wanted {wanted.channels} (train gray: 1) and a size of SAMPLESx1 for sound"
        )
    if count == width:
        return samples
    if wanted.fit == "crop" and count > width:
        return samples[:, :width]
    if wanted.fit == "letterbox" and count < width:
        return np.pad(samples, ((0, 0), (0, width - count), (0, 0)))
    raise UsageError(f"{path}: {count} samples, wanted {width}; fit = crop takes the first, letterbox adds zeros")
