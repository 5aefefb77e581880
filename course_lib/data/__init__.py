"""The data: a text and its splits, characters to numbers and back, windows of it."""
