"""Entry point of the child process that `launch.running_server` starts; not for people."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from selfgen.embedded.launch import end_with_parent, serve
from selfgen.errors import SelfgenError


def main() -> None:
    end_with_parent()
    descriptor, state_dir, seed, device, dtype, *models = sys.argv[1:]
    key = os.environ.pop("SELFGEN_SERVER_KEY")
    try:
        serve(models, Path(state_dir), seed=int(seed), device=device, dtype=dtype, key=key, descriptor=int(descriptor))
    except SelfgenError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
