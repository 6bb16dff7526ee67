"""Exports: the task set and the trained adapters in the forms that other tools load.

`tasks` writes the audited task set as plain JSON lines, a Hugging Face dataset folder, a Croissant description or a
`verifiers` environment package; `adapters` the LoRA adapters in PEFT format. Each comes with a card made from the run's
own figures, so that it carries its evidence with it.
"""
