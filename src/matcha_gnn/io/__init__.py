"""What is read and written: graphs, models, output folders."""
