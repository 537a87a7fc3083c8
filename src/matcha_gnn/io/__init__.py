"""What is read and written: graphs, models, deltas, output folders."""
