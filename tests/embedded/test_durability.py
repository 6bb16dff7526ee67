"""kill -9 at any moment, restarts, several servers over one folder, clients that vanish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import tinker
from tinker import types

from selfgen.embedded.launch import running_server
from selfgen.embedded.store import Store

DATUM = types.Datum(
    model_input=types.ModelInput.from_ints([5, 6, 7, 8]),
    loss_fn_inputs={"target_tokens": [6, 7, 8, 9], "weights": [1.0] * 4},
)
ADAM = types.AdamParams(learning_rate=1e-2)


def step(client) -> float:
    loss = client.forward_backward([DATUM], "cross_entropy").result().metrics["loss:sum"]
    client.optim_step(ADAM).result()
    return loss


def connect(info) -> tinker.ServiceClient:
    return tinker.ServiceClient(base_url=info.base_url, api_key=info.api_key)


def test_acknowledged_checkpoints_survive_kill_9_and_training_resumes(tiny, tmp_path) -> None:
    state = tmp_path / "state"
    paths: list[str] = []
    losses: list[float] = []
    for life in range(3):
        with running_server([str(tiny)], state, seed=0) as info:
            service = connect(info)
            if paths:
                client = service.create_training_client_from_state_with_optimizer(paths[-1]).result()
            else:
                client = service.create_lora_training_client(str(tiny), rank=4, seed=0).result()
            for _ in range(3):
                losses.append(step(client))
                paths.append(client.save_state(f"s{len(paths)}").result().path)
            # Kill while a save may be in progress.
            client.save_state("torn")
            time.sleep(0.002 * life)
            os.kill(info.pid, signal.SIGKILL)
    store = Store(state)
    for path in paths:
        meta, tensors = store.load(path)
        assert meta["digest"]
        assert tensors
    for run, _ in store.runs():
        for entry in store.entries(run):
            store.load(entry.path)
    with running_server([str(tiny)], tmp_path / "other", seed=0) as info:
        client = connect(info).create_lora_training_client(str(tiny), rank=4, seed=0).result()
        assert [step(client) for _ in range(9)] == losses


def test_two_servers_share_a_state_folder(tiny, tmp_path) -> None:
    with running_server([str(tiny)], tmp_path, seed=0) as one, running_server([str(tiny)], tmp_path, seed=0) as two:
        client = connect(one).create_lora_training_client(str(tiny), rank=4, seed=0).result()
        step(client)
        path = client.save_state("shared").result().path
        other = connect(two).create_training_client_from_state_with_optimizer(path).result()
        assert step(other) == step(client)
        params = types.SamplingParams(max_tokens=20)
        prompt = types.ModelInput.from_ints([5, 6, 7])
        tokens = []
        for info in (one, two):
            sampler = connect(info).create_sampling_client(model_path=path).result()
            tokens.append([list(s.tokens) for s in sampler.sample(prompt, 4, params).result().sequences])
        assert tokens[0] == tokens[1]


def test_concurrent_training_runs_do_not_mix(client, server) -> None:
    runs = [client.create_lora_training_client(server.model, rank=4, seed=s).result() for s in (0, 1, 0)]
    results: list[list[float]] = [[] for _ in runs]

    def train(i: int) -> None:
        for _ in range(4):
            results[i].append(step(runs[i]))

    threads = [threading.Thread(target=train, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[2] != results[1]


def test_the_server_ends_with_its_parent(tiny, tmp_path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from selfgen.embedded.launch import running_server
with running_server([{str(tiny)!r}], Path({str(tmp_path)!r}), seed=0) as info:
    print(info.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    pid = int(output)
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_requests(tiny, tmp_path) -> None:
    with running_server([str(tiny)], tmp_path, seed=0) as info:
        service = connect(info)
        sampler = service.create_sampling_client(base_model=str(tiny)).result()
        process = psutil.Process(info.pid)

        def requests(count: int, offset: int) -> int:
            futures = [
                sampler.sample(
                    types.ModelInput.from_ints([5, 6, 3 + i % 90, 3 + i // 90]), 1, types.SamplingParams(max_tokens=8)
                )
                for i in range(offset, offset + count)
            ]
            for future in futures:
                future.result()
            return process.memory_info().rss

        requests(300, 0)
        before = requests(200, 300)
        after = requests(1000, 500)
        # Answers are kept for a minute, in case one was lost on the way, and the allocator moves by some MiB: measured
        # over 5,000 requests, resident memory lay between 288 and 304 MiB and did not rise with their number.
        assert after - before < 20 << 20


def test_a_finished_session_frees_its_runs(client, server, tiny, tmp_path) -> None:
    from selfgen.embedded.engine import Engine
    from selfgen.embedded.lora import LoraSpec
    from selfgen.embedded.server import Server
    from selfgen.embedded.sessions import ClientSession

    engine = Engine({"m": tiny}, Store(tmp_path))
    state = Server(engine, "key")
    session = ClientSession("s", None, None, runs=["s:train:0"])
    state.sessions["s"] = session
    engine.create_run("s:train:0", "m", LoraSpec(4, 0), LoraSpec(4, 0), None)
    assert "s:train:0" in engine.runs
    state.end_session(session)
    engine.close()
    assert engine.runs == {}
    assert state.sessions == {}
