"""Speed and memory of fflbench, as ratios measured in one run: `python -m benchmarks`."""
