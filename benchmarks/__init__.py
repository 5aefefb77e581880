"""Measures speed against what a learner would use otherwise: `python -m benchmarks --list`.

A comparison makes contestants take turns, keeps every raw number and reports ratios of medians.
README.md says how to run it and by which rules.
"""
