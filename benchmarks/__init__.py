"""What fflbench's engine costs, as ratios measured in one run: python -m benchmarks"""
