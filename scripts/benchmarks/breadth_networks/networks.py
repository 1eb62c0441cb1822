"""The networks of this set, in an order that also divides them: even places are seen, odd places unseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from . import attention, classifiers, sequences, tabular, vision
from .builder import Array, Inputs, picture

CALIBRATION_SETS = 8


def integers(rng: np.random.Generator, shape: tuple[int, ...], bound: int) -> Array:
    return rng.integers(0, bound, shape, dtype=np.int64)


def masked_text(rng: np.random.Generator) -> Inputs:
    length = int(rng.integers(9, 17))
    return {
        "input_ids": integers(rng, (1, 16), 200),
        "attention_mask": (np.arange(16)[None] < length).astype(np.int64),
    }


def decoder_step(rng: np.random.Generator) -> Inputs:
    return {
        "input_ids": integers(rng, (1, 4), 128),
        "position_ids": np.arange(12, 16, dtype=np.int64)[None],
        "past_key": rng.normal(0, 1, (1, 4, 12, 8)).astype(np.float32),
        "past_value": rng.normal(0, 1, (1, 4, 12, 8)).astype(np.float32),
    }


def clicks(rng: np.random.Generator) -> Inputs:
    return {"dense": rng.exponential(1, (4, 13)).astype(np.float32), "ids": integers(rng, (4, 3), 100)}


def smooth(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Inputs]:
    """Inputs that are all smooth random fields."""
    return lambda rng: {name: picture(rng, *shape) for name, shape in shapes.items()}


def streaming(rng: np.random.Generator) -> Inputs:
    state = {name: rng.uniform(-0.5, 0.5, (1, 1, 32)).astype(np.float32) for name in ("h", "c")}
    return {"frames": picture(rng, 1, 12, 16), **state}


@dataclass(frozen=True)
class Network:
    """A float network and a maker of its inputs."""

    build: Callable[[], onnx.ModelProto]
    sample: Callable[[np.random.Generator], Inputs]

    @property
    def name(self) -> str:
        return self.build.__name__

    def calibration(self) -> list[Inputs]:
        rng = np.random.default_rng(1)
        return [self.sample(rng) for _ in range(CALIBRATION_SETS)]

    def test_inputs(self) -> Inputs:
        """One input set that was not used to calibrate."""
        return self.sample(np.random.default_rng(2))


NETWORKS: list[Network] = [
    Network(classifiers.plain_cnn, smooth(image=(1, 3, 32, 32))),
    Network(classifiers.residual_cnn, smooth(image=(1, 3, 32, 32))),
    Network(classifiers.mobilenet_v2, smooth(image=(1, 3, 48, 48))),
    Network(classifiers.mobilenet_v3, smooth(image=(1, 3, 48, 48))),
    Network(vision.detector_heads, smooth(image=(1, 3, 64, 64))),
    Network(vision.detector_nms, smooth(image=(1, 3, 48, 48))),
    Network(vision.segmentation, smooth(image=(1, 3, 48, 48))),
    Network(vision.unet, smooth(image=(1, 1, 38, 38))),
    Network(attention.vit, smooth(pixel_values=(1, 3, 32, 32))),
    Network(attention.hybrid, smooth(image=(1, 3, 32, 32))),
    Network(attention.text_encoder, masked_text),
    Network(attention.text_decoder, decoder_step),
    Network(sequences.speech_encoder, smooth(mel=(1, 20, 48))),
    Network(sequences.conformer, smooth(features=(1, 1, 40, 20))),
    Network(sequences.lstm, streaming),
    Network(sequences.bidirectional_gru, smooth(features=(1, 14, 20))),
    Network(sequences.rnn, smooth(sensors=(1, 24, 6))),
    Network(sequences.ocr_lstm, smooth(line=(1, 1, 16, 64))),
    Network(sequences.conv3d, smooth(clip=(1, 3, 8, 24, 24))),
    Network(sequences.volume_segmentation, smooth(volume=(1, 1, 12, 16, 16))),
    Network(sequences.audio_autoencoder, smooth(audio=(1, 1, 256))),
    Network(sequences.speech_enhancement, lambda rng: {"audio": rng.normal(0, 0.3, (1, 320)).astype(np.float32)}),
    Network(vision.super_resolution, smooth(image=(1, 1, 24, 24))),
    Network(vision.generator, lambda rng: {"noise": rng.normal(0, 1, (1, 32)).astype(np.float32)}),
    Network(tabular.recommender, clicks),
    Network(tabular.siamese, smooth(left=(1, 1, 32, 32), right=(1, 1, 32, 32))),
    Network(sequences.keyword_spotting, smooth(mfcc=(1, 1, 49, 10))),
    Network(sequences.temporal_conv, smooth(series=(1, 8, 64))),
    Network(classifiers.inception, smooth(image=(1, 3, 35, 35))),
    Network(classifiers.shuffle_net, smooth(image=(1, 3, 32, 32))),
    Network(classifiers.efficient_net, smooth(image=(1, 3, 40, 40))),
    Network(classifiers.dense_net, smooth(image=(1, 3, 32, 32))),
    Network(tabular.odd_heads, smooth(image=(1, 3, 24, 24))),
    Network(vision.yolo, smooth(images=(1, 3, 64, 64))),
    Network(vision.text_lines, smooth(x=(1, 3, 32, 80))),
    Network(attention.swin, smooth(image=(1, 3, 32, 32))),
    Network(attention.mlp_mixer, smooth(image=(1, 3, 32, 32))),
    Network(classifiers.conv_next, smooth(image=(1, 3, 32, 32))),
    Network(tabular.point_cloud, smooth(points=(1, 64, 3))),
]


def half_of(name: str) -> str:
    """'seen' for networks at even places, 'unseen' for the others."""
    names = [network.name for network in NETWORKS]
    return "unseen" if names.index(name) % 2 else "seen"
