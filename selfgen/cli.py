"""The `selfgen` command: what is not a DVC stage. Each part of the package brings its own commands; they meet here.

Exit codes: 0 done, 1 an error the user can act on or a failed check, 2 wrong usage.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import Any

import click

from selfgen import __version__
from selfgen.errors import SelfgenError

# Command -> "module:attribute". Modules load on use, so that `selfgen --help` does not import torch.
_COMMANDS = {
    "serve": "selfgen.embedded.cli:serve",
    "journal": "selfgen.commands:journal",
    "compose": "selfgen.commands:compose",
    "check": "selfgen.capabilities:check",
    "status": "selfgen.status:status",
    "report": "selfgen.report.cli:report",
    "show": "selfgen.show:show",
    "export": "selfgen.export.cli:export",
    "import": "selfgen.export.importing:import_",
    "generate": "selfgen.registered:generate",
    "audit": "selfgen.registered:audit",
    "overlap": "selfgen.tasks.measure:overlap",
    "repair": "selfgen.tasks.repair:repair",
    "verify": "selfgen.verify.cli:verify",
    "sign": "selfgen.signing:sign",
    "power": "selfgen.decision.cli:power",
    "seeds": "selfgen.decision.cli:seeds",
    "prereg": "selfgen.decision.cli:prereg",
    "push": "selfgen.sharing:push",
    "spec": "selfgen.decision.cli:spec",
}


class LazyGroup(click.Group):
    """A click group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"max_content_width": 110})
@click.version_option(__version__)
def cli() -> None:
    """Can a small model's own, checkable math tasks replace GSM8K as RL training data?

    The pipeline itself is DVC's: `dvc repro`, `dvc exp run -S seed=1`, `dvc metrics diff`.

    \b
    Exit codes: 0 done; 1 a failed check, or an error that one line explains; 2 wrong usage; 130 interrupted.
    Completion: eval "$(_SELFGEN_COMPLETE=bash_source selfgen)", or zsh_source, fish_source.
    """


def run(command: click.Command, **kwargs: Any) -> None:
    """Run a click command with the error contract of every entry point: one line on stderr, exit code 1."""
    leave(_code(command, **kwargs))


def leave(code: int) -> None:
    """End this process. A caller that must live on (a test) puts `sys.exit` in its place."""
    if "tinker" in sys.modules:
        # The SDK's threads outlive its clients, and Python's own shutdown now and then aborts in one of them, after
        # everything is written. Leave without it.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _code(command: click.Command, **kwargs: Any) -> int:
    """The exit code of a command that has run."""
    try:
        command.main(standalone_mode=False, **kwargs)
        return 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted; what was finished is kept, run the same command again to go on", file=sys.stderr)
        return 130
    except SelfgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno is None or error.filename is None:
            raise
        print(
            f"error: {error.filename}: {error.strerror}; check the path, its permissions and free space",
            file=sys.stderr,
        )
        return 1


def main() -> None:
    """Entry point of the `selfgen` console script."""
    run(cli)


if __name__ == "__main__":
    main()
