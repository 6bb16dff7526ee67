"""How a command ends: its exit code, its last words and its exit functions, without Python's own shutdown after the SDK."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import atexit, os, sys, click
{first}
from selfgen.cli import run
from selfgen.errors import DataError

class Late:
    def __del__(self):  # run by the interpreter's own shutdown alone
        os.write(1, b"shutdown")

late = Late()
atexit.register(lambda: print("at exit"))

@click.command()
def command():
    print("said")
    {last}

run(command, args=[])
"""


@pytest.mark.parametrize(
    ("first", "last", "code", "out"),
    [
        ("import tinker", "pass", 0, "said\nat exit\n"),
        ("import tinker", "raise DataError('wrong')", 1, "said\nat exit\n"),
        ("import tinker", "raise click.UsageError('usage')", 2, "said\nat exit\n"),
        ("", "pass", 0, "said\nat exit\nshutdown"),
    ],
)
def test_a_command_ends_with_its_code_and_its_exit_functions(first: str, last: str, code: int, out: str) -> None:
    program = textwrap.dedent(PROGRAM.format(first=first, last=last))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, out)
