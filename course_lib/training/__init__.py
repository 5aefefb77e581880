"""Training: the rate's schedule, the optimiser, the loop, and what a run leaves on disk."""
