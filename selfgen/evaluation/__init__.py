"""Greedy evaluation, one row per item, and the graders that read its completions."""
