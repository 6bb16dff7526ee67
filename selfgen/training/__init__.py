"""The trained arms: what each is trained on, where it starts, and the stock loop that trains it."""
