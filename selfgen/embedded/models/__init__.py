"""The shipped models, and how a model name becomes a folder.

`selfgen/policy` and `selfgen/auditor` are the two small models inside this package; any other name is a
folder or a Hugging Face id.
"""

from __future__ import annotations

from pathlib import Path

SHIPPED = {"selfgen/policy": "policy", "selfgen/auditor": "auditor"}


def resolve(name: str) -> Path | str:
    """The folder that holds the model `name`, or the Hugging Face id itself when it is not a local folder."""
    if name in SHIPPED:
        return Path(__file__).parent / SHIPPED[name]
    path = Path(name).expanduser()
    return path if path.is_dir() else name
