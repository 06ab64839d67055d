"""Training: loss, schedule, averages, validation, checkpoints, and the loop that ties them together."""
