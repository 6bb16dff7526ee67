"""The shipped models, and how a model name becomes a folder.

`selfgen/policy` and `selfgen/auditor` are the two small models inside this package; any other name is a
folder or a Hugging Face id.
"""

from __future__ import annotations

from hashlib import file_digest, sha256
from pathlib import Path

SHIPPED = {"selfgen/policy": "policy", "selfgen/auditor": "auditor"}


def resolve(name: str) -> Path | str:
    """The folder that holds the model `name`, or the Hugging Face id itself when it is not a local folder."""
    if name in SHIPPED:
        return Path(__file__).parent / SHIPPED[name]
    path = Path(name).expanduser()
    return path if path.is_dir() else name


def weights_digest(name: str) -> str:
    """sha256 over config, tokenizer and weight files of a model: what its samples depend on besides the request.

    Files are hashed once; the result is kept beside the embedded servers' state, keyed by path, size and time.
    """
    from selfgen.embedded.launch import folders
    from selfgen.journal import cache_dir
    from selfgen.records import read_json, write_json

    folder = folders([name])[name].resolve()
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".model", ".txt"))
    stamp = sha256(repr([(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]).encode()).hexdigest()
    known = cache_dir() / "weights" / f"{stamp}.json"
    if known.is_file():
        return read_json(known)["sha256"]
    state = sha256()
    for path in files:
        with open(path, "rb") as file:
            state.update(f"{path.name}\0{file_digest(file, 'sha256').hexdigest()}\n".encode())
    write_json(known, {"folder": str(folder), "sha256": state.hexdigest()})
    return state.hexdigest()
