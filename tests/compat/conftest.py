"""A working folder in which hub names are local folders, so that unmodified recipes run offline on a tiny model."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

MODEL = "Qwen/Qwen3-4B-Instruct-2507"  # a name that the cookbook knows; the folder of that name holds a tiny model


def write_datasets(folder: Path) -> None:
    """Stand-ins for openai/gsm8k and HuggingFaceH4/no_robots, in their formats."""
    rng = random.Random(0)
    gsm8k = folder / "openai" / "gsm8k"
    (gsm8k / "main").mkdir(parents=True)
    for split in ("train", "test"):
        rows = []
        for _ in range(40):
            a, b = rng.randrange(50), rng.randrange(50)
            rows.append({"question": f"Ann has {a} pens, buys {b}. How many now?", "answer": f"Add.\n#### {a + b}"})
        (gsm8k / "main" / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (gsm8k / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train.jsonl\n"
        "  - split: test\n    path: main/test.jsonl\n---\n"
    )
    robots = folder / "HuggingFaceH4" / "no_robots"
    robots.mkdir(parents=True)
    for split in ("train", "test"):
        rows = [
            {"messages": [{"role": "user", "content": f"Say {i}."}, {"role": "assistant", "content": str(i)}]}
            for i in range(40)
        ]
        (robots / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.embedded.tiny import write_model

    folder = tmp_path_factory.mktemp("compat")
    write_model(folder / MODEL, max_position_embeddings=4096)
    write_datasets(folder)
    return folder


@pytest.fixture(scope="session")
def served(workplace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server for MODEL, started in the working folder."""
    from selfgen.embedded.launch import running_server

    before = os.getcwd()
    os.chdir(workplace)
    try:
        state = tmp_path_factory.mktemp("compat-state")
        with running_server([MODEL], state, seed=0) as info:
            yield SimpleNamespace(base_url=info.base_url, api_key=info.api_key, pid=info.pid, model=MODEL, state=state)
    finally:
        os.chdir(before)


@pytest.fixture
def recipe(workplace: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Run a cookbook module as its users do; fails with the end of its output."""

    def run(module: str, info, **arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", module, f"base_url={info.base_url}"]
        command += [f"{key}={value}" for key, value in arguments.items()]
        result = subprocess.run(
            command, cwd=workplace, env=environment(info), capture_output=True, text=True, timeout=280, check=False
        )
        assert result.returncode == 0, result.stderr[-3000:]
        return result

    return run


def environment(info) -> dict[str, str]:
    """Offline, one thread, this server's key."""
    return {
        **os.environ,
        "TINKER_API_KEY": info.api_key,
        "TINKER_TELEMETRY": "0",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


def rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]
