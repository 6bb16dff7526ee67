"""The stock RL recipe, with client and server killed with -9 at random moments, ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from selfgen.embedded.launch import running_server
from selfgen.embedded.store import Store
from tests.compat.conftest import MODEL, environment, rows

pytestmark = pytest.mark.compat
STEPS = int(os.environ.get("SELFGEN_RESUME_STEPS", "8"))
KILLS = int(os.environ.get("SELFGEN_RESUME_KILLS", "2"))


@pytest.mark.timeout(1500)
def test_killed_runs_resume_to_the_same_number_of_steps(workplace, served, tmp_path) -> None:
    log, state = tmp_path / "log", tmp_path / "state"
    rng = random.Random(0)
    for life in range(KILLS + 1):
        with running_server([MODEL], state, seed=0) as info:
            command = [sys.executable, "-m", "tinker_cookbook.recipes.math_rl.train", f"base_url={info.base_url}"]
            command += [f"model_name={MODEL}", "lora_rank=4", "max_tokens=8", "env=arithmetic", "groups_per_batch=4"]
            command += ["group_size=4", "eval_every=0", "save_every=1", f"max_steps={STEPS}", f"log_path={log}"]
            command += ["behavior_if_log_dir_exists=resume", "learning_rate=1e-2"]
            done = len(rows(log / "metrics.jsonl")) if (log / "metrics.jsonl").exists() else 0
            output = tmp_path / f"client-{life}.log"  # a pipe that nobody reads would stop the client
            with (
                output.open("wb") as sink,
                subprocess.Popen(
                    command, cwd=workplace, env=environment(info), stdout=sink, stderr=subprocess.STDOUT
                ) as client,
            ):
                if life < KILLS:
                    target = done + 1 + rng.randrange(max(1, STEPS // (KILLS + 2)))
                    while client.poll() is None:
                        file = log / "metrics.jsonl"
                        if file.exists() and len(file.read_text().splitlines()) >= target:
                            break
                        time.sleep(0.05)
                    assert client.poll() is None, output.read_text()[-3000:]
                    time.sleep(rng.random())
                    os.kill(info.pid, signal.SIGKILL)
                    client.kill()
                else:
                    assert client.wait(timeout=600) == 0, output.read_text()[-3000:]
    assert sorted({r["progress/batch"] for r in rows(log / "metrics.jsonl")}) == list(range(STEPS))
    assert rows(log / "checkpoints.jsonl")[-1]["batch"] == STEPS
    store = Store(state)
    entries = [entry for run, _ in store.runs() for entry in store.entries(run)]
    assert entries
    for entry in entries:
        store.load(entry.path)
