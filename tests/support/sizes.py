"""Sizes at which every stage does its real work in seconds."""

SMALL = (
    "curated.n_train=60",
    "curated.n_test=12",
    "transfer.outside.items=2",
    "generate.n_candidates=24",
    "filter.n_accept=8",
    "audit.sample=4",
    "pilot.eval_items=2",
    "train.problems=8",
    "train.steps=2",
    "train.save_every=2",
    "eval.repeat=true",
)
