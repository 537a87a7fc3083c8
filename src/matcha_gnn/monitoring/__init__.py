"""Progress bars and stopwatches."""
