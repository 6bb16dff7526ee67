"""A Tinker-protocol server for laptops, CI and one GPU: LoRA training and sampling of Hugging Face causal LMs.

config, decoder, attention, lora   the model: reading a folder, the forward pass, adapters
trainer, losses                    one training run: gradients and Adam
sampler, streams                   continuous batching and reproducible random streams
store                              checkpoints on disk
engine                             the compute thread that owns all of these
protocol, sessions, app, rest      the wire
launch, child, cli                 starting it
"""


def serve(*args, **kwargs) -> None:
    """See `selfgen.embedded.launch.serve`."""
    from selfgen.embedded import launch

    launch.serve(*args, **kwargs)
