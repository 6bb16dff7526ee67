"""Every command line in the page about reports and exports is one that the program accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from selfgen.cli import cli

PAGE = "docs/report.md"


def commands() -> list[str]:
    text = (Path(__file__).resolve().parents[2] / PAGE).read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.startswith("selfgen")]


@pytest.mark.parametrize("line", commands())
def test_the_command_line_parses(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    words = [PAGE if word.startswith("../") else word for word in words]  # the example's file is not ours
    command.make_context("selfgen", words)
