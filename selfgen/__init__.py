"""selfgen: can a small model's own, checkable math tasks replace GSM8K as RL training data?"""

__version__ = "0.1.0"
