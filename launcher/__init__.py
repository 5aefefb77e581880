"""What start.py does, part by part, with Python's standard library only.

environment is the .venv and setup makes it, with packages (pip) and lock; copies (the learner's
notebooks) stands on health; jupyter opens the server; command puts them in order; files and report
serve all.
"""
