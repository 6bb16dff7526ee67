"""The sandbox: right answers, closed doors, hard limits, and a caller that stays whole whatever runs inside."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from selfgen.errors import SandboxError
from selfgen.tasks import sandbox as module
from selfgen.tasks.reasons import EXECUTION_REASONS, STATUSES, execution_reason
from selfgen.tasks.sandbox import LABEL_LIMIT, SOURCE_LIMIT, Outcome, Sandbox, run_solve
from tests.tasks.attacks import ATTACKS

DEADLINE_S = 2.5


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as open_sandbox:
        yield open_sandbox


def solve(body: str) -> str:
    return "def solve():\n" + textwrap.indent(body, "    ") + "\n"


# Answers.


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return 6 * 7", 42),
        ("return -3", -3),
        ("return 0", 0),
        ("return 10**15", 10**15),
        ("x: int = 5\nreturn x", 5),
        ("return int(3.0)", 3),
        ("return round(7.5)", 8),
        ("print('hello')\nreturn 1", 1),
        ("import math\nreturn math.ceil(7 / 2)", 4),
        ("return sum(n for n in range(101) if n % 2)", 2500),
        ("return sum(range(10**6))", 499999500000),
        ("gamma = 2\nreturn gamma", 2),
        ("return len({'a': 1, 'b': 2}) + len('abc')", 5),
        ("return int(f'{12.5:.0f}')", 12),
    ],
)
def test_the_return_value_of_solve_is_the_label(sandbox: Sandbox, body: str, value: int) -> None:
    assert sandbox.run(solve(body)) == Outcome("ok", value, "")


def test_helpers_recursion_dataclasses_and_default_arguments_work(sandbox: Sandbox) -> None:
    code = (
        "from dataclasses import dataclass\nfrom functools import reduce\n\n@dataclass\nclass Bag:\n    apples: int = 4\n\n"
        "def total(n: int) -> int:\n    return 0 if n == 0 else Bag().apples + total(n - 1)\n\n"
        "def solve(bags: int = 3) -> int:\n    return reduce(lambda a, b: a + b, [total(bags), -2])\n"
    )
    assert sandbox.run(code) == Outcome("ok", 10, "")


def test_run_solve_uses_one_shared_sandbox() -> None:
    assert run_solve(solve("return 1")) == Outcome("ok", 1, "")
    assert run_solve(solve("return 2")) == Outcome("ok", 2, "")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("return 42.0", "bad_type"),
        ("return True", "bad_type"),
        ("return None", "bad_type"),
        ("return '42'", "bad_type"),
        (f"return {LABEL_LIMIT} + 1", "out_of_range"),
        ("return 10**5000", "out_of_range"),
        ("return 1 <= []", "error"),
        ("return 1 // 0", "error"),
        ("return undefined", "error"),
        ("raise ValueError('no')", "error"),
        ("assert 1 == 2", "error"),
        ("return (", "syntax"),
        ("return input()", "unsupported"),
        ("return open('x').read()", "unsupported"),
        ("import numpy", "unsupported"),
        ("import fractions", "unsupported"),
        ("return (2.0).is_integer()", "unsupported"),
        ("return (2.0).no_such_thing()", "error"),
        ("yield 3", "unsupported"),
        ("import math\nreturn int(math.cbrt(27))", "unsupported"),
        ("from math import gamma\nreturn int(gamma(5))", "unsupported"),
        ("import random\nreturn random.randint(1, 6)", "unsupported"),
        ("while True: pass", "timeout"),
        ("return len('x' * 10**10)", "memory"),
    ],
)
def test_every_failure_has_its_status_and_one_line_of_evidence(sandbox: Sandbox, body: str, status: str) -> None:
    outcome = sandbox.run(solve(body))
    assert (outcome.status, outcome.value) == (status, None)
    assert outcome.detail
    assert outcome.detail.isprintable()
    assert len(outcome.detail) <= 200


def test_statuses_and_reasons_are_the_same_closed_list() -> None:
    assert STATUSES[0] == "ok"
    assert [execution_reason(status) for status in STATUSES[1:]] == list(EXECUTION_REASONS)
    with pytest.raises(ValueError, match="not a failed"):
        execution_reason("ok")


def test_solve_with_required_arguments_is_an_error(sandbox: Sandbox) -> None:
    assert sandbox.run("def solve(n):\n    return n").status == "error"


def test_source_is_capped_at_its_length_in_characters(sandbox: Sandbox) -> None:
    code = solve("return 1")
    assert sandbox.run(code + "#" * (SOURCE_LIMIT - len(code))).status == "ok"
    assert sandbox.run(code + "#" * (SOURCE_LIMIT - len(code) + 1)).status == "unsupported"


def test_a_seeded_random_generator_gives_the_same_label_every_time(sandbox: Sandbox) -> None:
    code = solve("import random\nrandom.seed(7)\nreturn random.randint(1, 10**6)")
    outcomes = {sandbox.run(code) for _ in range(5)}
    assert len(outcomes) == 1
    assert outcomes.pop().status == "ok"


def test_programs_that_shadow_builtins_still_get_their_answer(sandbox: Sandbox) -> None:
    assert sandbox.run("sum = 5\nround = 2\n" + solve("return sum * round")).value == 10
    assert sandbox.run(solve("sum = 0\nfor x in [1, 2]:\n    sum += x\nreturn sum")).value == 3
    assert sandbox.run("type = int = float = None\n" + solve("return 3")).value == 3
    assert sandbox.run("def round(x):\n    return 9\n" + solve("return round(1)")).value == 9


# Attacks.


def test_every_attack_ends_in_time_with_a_classified_outcome_and_leaves_the_caller_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CANARY").write_text("alive")
    monkeypatch.chdir(tmp_path)
    run_solve(solve("return 1"))  # the runtime's own threads and descriptors exist from here on
    signals = (signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGCHLD)
    handlers = [signal.getsignal(number) for number in signals]
    descriptors = psutil.Process().num_fds()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def timed(code: str) -> tuple[Outcome, float]:
        started = time.perf_counter()
        outcome = two.run(code)
        return outcome, time.perf_counter() - started

    with Sandbox(2) as two:
        results = list(two.map(timed, [code for _, code, _ in ATTACKS]))
        # Late with a neighbour on a busy machine? Measured alone before it is judged.
        results = [timed(ATTACKS[i][1]) if s >= DEADLINE_S else (o, s) for i, (o, s) in enumerate(results)]

    wrong = [
        (name, outcome, round(seconds, 2))
        for (name, _, statuses), (outcome, seconds) in zip(ATTACKS, results, strict=True)
        if outcome.status not in statuses
        or (outcome.value is None) == (outcome.status == "ok")
        or not outcome.detail.isprintable()
        or seconds >= DEADLINE_S
    ]
    assert wrong == []
    assert [path.name for path in tmp_path.iterdir()] == ["CANARY"]
    assert (tmp_path / "CANARY").read_text() == "alive"
    assert [signal.getsignal(number) for number in signals] == handlers
    assert psutil.Process().num_fds() <= descriptors
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 * 1024  # KiB


def test_the_battery_is_large_and_its_names_are_distinct() -> None:
    assert len({attack[0] for attack in ATTACKS}) == len(ATTACKS) >= 80
    assert all(set(statuses) <= set(STATUSES) for _, _, statuses in ATTACKS)


def test_printed_output_reaches_neither_stdout_nor_stderr(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    sandbox.run(solve("import sys\nprint('LOUD')\nprint('LOUD', file=sys.stderr)\nreturn 1"))
    assert "LOUD" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("leave", "look"),
    [
        ("secret = 7", "return secret"),
        ("import math\nmath.secret = 7", "import math\nreturn math.secret"),
        ("import math\nmath.floor = lambda x: 7", "import math\nreturn 7 if math.floor(1.5) == 7 else 1 // 0"),
        ("import sys\nsys.secret = 7", "import sys\nreturn sys.secret"),
        ("import os\nos.environ = {'secret': 7}", "import os\nreturn os.environ['secret']"),
        ("import os\nos.chdir('/tmp')", "import os\nreturn 7 if os.getcwd() == '/tmp' else 1 // 0"),
        ("len = lambda x: 7", "return 7 if len([]) == 7 else 1 // 0"),
        ("_selfgen = 7", "return _selfgen"),
        ("def helper():\n    return 7", "return helper()"),
        ("import random\nrandom.seed(1)", "import random\nreturn random.randint(7, 7)"),
    ],
)
def test_nothing_survives_from_one_program_to_the_next(sandbox: Sandbox, leave: str, look: str) -> None:
    for _ in range(3):  # the same worker serves them all
        sandbox.run(leave + "\n" + solve("return 1"))
        assert sandbox.run(solve(look)).status in ("error", "unsupported")


def test_a_worker_that_hit_a_limit_serves_no_other_program(sandbox: Sandbox) -> None:
    def workers() -> set[int]:
        return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}

    for body in ("while True: pass", "return len('x' * 10**10)"):
        sandbox.run(solve("return 1"))
        before = workers()
        sandbox.run(solve(body))
        assert sandbox.run(solve("return 2")).value == 2
        assert workers() != before


def test_a_killed_worker_is_a_crash_and_the_next_program_runs() -> None:
    with Sandbox() as own:
        before = {child.pid for child in psutil.Process().children()}
        with Sandbox() as other:
            other.run(solve("return 1"))
            (worker,) = (child for child in psutil.Process().children() if child.pid not in before)
            timer = threading.Timer(0.3, worker.kill)
            timer.start()
            outcome = other.run(solve("while True: pass"))
            timer.join()
            assert outcome.status == "crash"
            assert outcome.detail
            assert other.run(solve("return 2")) == Outcome("ok", 2, "")
        assert own.run(solve("return 3")) == Outcome("ok", 3, "")


def test_a_worker_sees_neither_the_environment_nor_the_files_of_its_parent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret")
    before = {child.pid for child in psutil.Process().children()}
    with (tmp_path / "open-in-the-parent").open("w"), Sandbox() as own:
        own.run(solve("return 1"))
        (worker,) = (child for child in psutil.Process().children() if child.pid not in before)
        assert "TINKER_API_KEY" not in worker.environ()
        assert "open-in-the-parent" not in str(worker.open_files())


@pytest.mark.parametrize("binary", ["/nonexistent", "/bin/false"])
def test_a_broken_installation_is_one_error_and_not_a_thousand_rejections(
    monkeypatch: pytest.MonkeyPatch, binary: str
) -> None:
    monkeypatch.setenv("MONTY_BIN", binary)
    with pytest.raises(SandboxError, match="reinstall") as caught, Sandbox():
        pass
    assert "\n" not in str(caught.value)


def test_closing_leaves_no_process_behind() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with Sandbox(2) as two:
        list(two.map(two.run, [solve("return 1")] * 20))
    gone = time.monotonic() + 5
    while {c.pid for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE} - before:
        assert time.monotonic() < gone
        time.sleep(0.05)


def test_a_closed_sandbox_and_a_sandbox_without_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="closed"):
        Sandbox().run(solve("return 1"))
    with pytest.raises(ValueError, match="at least one"):
        Sandbox(0)


# Threads, forks and streams.


def test_threads_share_a_sandbox_without_mixing_answers() -> None:
    wrong: list[tuple[int, Outcome]] = []
    with Sandbox(2) as two:

        def work(base: int) -> None:
            for i in range(base, base + 40):
                outcome = two.run(solve(f"x = {i}\nreturn x * 3"))
                if outcome != Outcome("ok", 3 * i):
                    wrong.append((i, outcome))

        threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_map_keeps_order_is_lazy_and_takes_an_endless_stream() -> None:
    taken = []

    def endless() -> Iterator[str]:
        n = 0
        while True:
            taken.append(n)
            yield solve(f"return {n}")
            n += 1

    with Sandbox(2) as two:
        stream = two.map(two.run, endless())
        assert [next(stream).value for _ in range(30)] == list(range(30))
        assert len(taken) <= 30 + 4 * 2
        stream.close()  # type: ignore[attr-defined]


FORKING = """
import multiprocessing, os, sys
from selfgen.tasks.sandbox import Sandbox, run_solve

OK = "def solve():\\n    return 42"

def check(where, sandbox):
    values = [run_solve(OK).value, sandbox.run(OK).value]
    with Sandbox() as fresh:
        values.append(fresh.run(OK).value)
        values.append(fresh.run("def solve():\\n    return 1.5").status)
    assert values == [42, 42, 42, "bad_type"], (where, values)

if __name__ == "__main__":
    with Sandbox(2) as sandbox:
        check("parent", sandbox)
        for hard in (False, True):
            pid = os.fork()
            if pid == 0:
                check("child", sandbox)
                grandchild = os.fork()
                if grandchild == 0:
                    check("grandchild", sandbox)
                    os._exit(0)
                assert os.waitpid(grandchild, 0)[1] == 0
                os._exit(0) if hard else sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            check("parent after fork", sandbox)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert [o.value for o in pool.map(run_solve, [OK] * 6)] == [42] * 6, method
    print("whole")
"""


def test_forked_children_neither_hang_nor_disturb_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "forking.py"
    script.write_text(FORKING)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


LEAVING = """
import gc, os, time
import psutil
from selfgen.tasks import sandbox as module

with module.Sandbox(2) as sandbox:
    assert sandbox.run("def solve():\\n    return 42").value == 42
    workers = psutil.Process().children(recursive=True)
    assert workers
    pid = os.fork()
    if pid == 0:
        vars(module).clear()  # as the interpreter does at its end
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(0.2)
    assert [w.status() for w in workers if w.status() == psutil.STATUS_ZOMBIE] == []
    assert sandbox.run("def solve():\\n    return 42").value == 42
print("whole")
"""


def test_a_forked_child_that_ends_leaves_the_parents_workers_alive(tmp_path: Path) -> None:
    script = tmp_path / "leaving.py"
    script.write_text(LEAVING)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_a_relay_that_dies_is_a_crash_and_is_replaced() -> None:
    relays = module.Relays(1)
    try:
        assert relays.run(solve("return 5")) == ("ok", 5, "")
        relay = relays._idle.get()
        assert relay is not None
        relay.kill()
        relay.wait()
        relays._idle.put(relay)
        assert relays.run(solve("return 5"))[0] == "crash"
        assert relays.run(solve("return 6")) == ("ok", 6, "")
    finally:
        relays.close()
