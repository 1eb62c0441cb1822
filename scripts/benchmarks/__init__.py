"""What scripts/bench measures: ratios, side by side, in one run."""
