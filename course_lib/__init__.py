"""The helper library of the course: one readable GPT, and what trains, samples and opens it.

Importing this package runs nothing and imports no torch. Its folders follow the order of the
lessons: model, data, training, generation, lens, plots, explorers, exercises, cli.
"""
