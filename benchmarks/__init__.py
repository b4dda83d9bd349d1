"""What sharing is worth, measured: `python -m benchmarks windows`. A package beside the product, not part of it."""
