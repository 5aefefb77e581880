"""Lets pytest collect the notebooks, whatever part of the tree it is given."""

pytest_plugins = ["tests.notebooks.editions"]
