"""What the decoders share: results, settings, outputs found by shape, selection of boxes, geometry of frames."""
