"""The whole pipeline at the smallest size under an older tinker SDK: `make compat-old` runs this in an environment of its own.

python -m tests.compat.old_sdk 0.25.0
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.support.sizes import SMALL

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Run every stage in a folder of its own and read the verdict back."""
    wanted = sys.argv[1]
    assert version("tinker") == wanted, f"tinker {version('tinker')} is installed, not {wanted}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("conf", "review", "imports", "evalsets", "prereg"):
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SELFGEN_CACHE": str(folder / "cache")}
        for command in (["selfgen.cli", "compose", *SMALL], ["tests.support.service_run"]):
            subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, check=True)
        found = json.loads((folder / "metrics/decision.json").read_text())
        packages = json.loads((folder / "data/train/rl_selfgen/manifest.json").read_text())["predicate"]["packages"]
    assert packages["tinker"] == wanted
    assert set(found["accuracy"]) == {"base", "rl_gsm8k", "rl_selfgen"}
    print(f"tinker {wanted}, tinker-cookbook {packages['tinker-cookbook']}: {found['verdict']} at {found['n']} items")


if __name__ == "__main__":
    main()
