"""What only maintainers run: build the notebooks, check lessons against the template."""
