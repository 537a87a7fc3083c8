"""Sums that only γ and its methods need."""
