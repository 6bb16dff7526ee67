"""From raw model output to tasks: propose, parse, run, label, filter, decontaminate, audit and repair."""
