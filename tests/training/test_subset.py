"""Which problems each arm trains on."""

import json

import pytest

from selfgen.errors import ParamsError, YieldError
from selfgen.params import SolveParams
from selfgen.progress import Progress
from selfgen.records import Completion, CuratedRow, Task
from selfgen.training import subset

CURATED = [CuratedRow(f"set-train-{i:05d}", f"Question {i}?", "", str(i)) for i in range(40)]
TASKS = [Task(f"task-{i:016x}", f"cand-{i:06d}", i, f"Problem {i}?", "code", i, 1 + i % 6, 8) for i in range(30)]


def select(data, n=10, seed=0, **more):
    return subset.select(data, n, seed, curated=CURATED, tasks=TASKS, **more)


def test_gsm8k_at_seed_0_begins_with_the_stock_loaders_rows():
    assert subset.shuffled(7473, 0)[:4] == [5441, 2360, 5646, 1485]


@pytest.mark.parametrize("seed", [0, 1, 17])
@pytest.mark.parametrize("n", [1, 40, 7473])
def test_the_order_is_that_of_datasets_shuffle(seed, n):
    import datasets

    rows = datasets.Dataset.from_dict({"row": list(range(n))}).shuffle(seed=seed)
    assert rows["row"][:] == subset.shuffled(n, seed)


def test_the_curated_subset_of_real_gsm8k_is_the_stock_datasets_first_rows(gsm8k_dir):
    import datasets

    lines = [json.loads(line) for line in (gsm8k_dir / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    stock = datasets.Dataset.from_list(lines).shuffle(seed=0).select(range(640))
    rows = [CuratedRow(f"gsm8k-train-{i:05d}", x["question"], x["answer"], "0") for i, x in enumerate(lines)]
    ours = subset.select("curated", 640, 0, curated=rows, tasks=[])
    assert [p.question for p in ours] == stock["question"][:]
    assert ours[0].id == "gsm8k-train-05441"


def test_tasks_keep_generation_order_whatever_the_seed():
    assert [p.id for p in select("tasks", seed=0)] == [t.id for t in TASKS[:10]]
    assert select("tasks", seed=0) == select("tasks", seed=5)


def test_a_task_problem_holds_its_text_and_label_and_never_its_code():
    first = select("tasks")[0]
    assert (first.question, first.answer) == ("Problem 0?", "0")
    assert "code" not in vars(first).values()


def test_the_curated_order_follows_the_seed():
    assert select("curated", seed=0) != select("curated", seed=1)
    assert len({p.id for p in select("curated", n=40)}) == 40


@pytest.mark.parametrize("n", [10, 11])
def test_mixed_is_half_and_half_taken_in_turn(n):
    problems = select("mixed", n=n)
    from_tasks = [p for p in problems if p.id.startswith("task-")]
    assert len(problems) == n
    assert len(from_tasks) == n - n // 2
    assert [p.id.startswith("task-") for p in problems[:4]] == [True, False, True, False]
    assert [p.id for p in from_tasks] == [t.id for t in TASKS[: n - n // 2]]


def test_one_task_is_the_first_task_again_and_again():
    assert {p.id for p in select("one_task")} == {TASKS[0].id}
    assert len(select("one_task")) == 10


def test_too_few_problems_stop_with_the_numbers():
    with pytest.raises(YieldError, match=r"holds 30 problems but train\.problems is 31"):
        select("tasks", n=31)
    with pytest.raises(YieldError):
        subset.select("one_task", 3, 0, curated=CURATED, tasks=[])
    with pytest.raises(YieldError, match="holds 25"):
        subset.select("mixed", 40, 0, curated=CURATED[:5], tasks=TASKS)


def test_unknown_data_is_named():
    with pytest.raises(ParamsError, match="unknown data 'books'"):
        select("books")


def test_the_coins_rate_is_the_measured_pass_rate():
    assert subset.random_rate(TASKS[:6]) == sum(range(1, 7)) / 48
    with pytest.raises(YieldError):
        subset.random_rate([])


SOLVE = SolveParams(n_samples=8, min_correct=1, max_correct=6, temperature=1.0, max_tokens=64, seed=0)


class Solver:
    """Solves the i-th asked row `passes[i]` times of 8, and counts how many rows it was asked."""

    def __init__(self, rows, passes):
        self.rows, self.passes, self.asked = rows, passes, 0

    def sample_stream(self, requests):
        for number, request in enumerate(requests):
            assert request.n == 8
            self.asked += 1
            right = f"\\boxed{{{self.rows[number].answer}}}"
            yield [Completion(right if k < self.passes[number] else "\\boxed{-1}", 3, "stop") for k in range(8)]


def banded(rows, passes, n, progress=None):
    from selfgen import rendering

    solver = Solver(rows, passes)
    renderer = rendering.renderer("qwen3_instruct", "selfgen/policy")
    found = subset.band(rows, n, sampler=solver, renderer=renderer, solve=SOLVE, few_shot="none", progress=progress)
    return list(found), solver


def test_the_banded_control_applies_the_tasks_rule_and_stops_asking_when_it_has_enough():
    found, solver = banded(CURATED, [0, 1, 6, 7, 8, 3, *[2] * 34], 3)
    assert [b.row.id for b in found] == [CURATED[1].id, CURATED[2].id, CURATED[5].id]
    assert [(b.n_correct, b.n_samples) for b in found] == [(1, 8), (6, 8), (3, 8)]
    assert solver.asked == 6


def test_the_banded_control_tells_its_yield_while_it_asks():
    bar = Progress("subset", 3)
    banded(CURATED, [0, 1, 6, 7, 8, 3, *[2] * 34], 3, bar)
    assert (bar.done, bar.note) == (3, "yield 50% of 6")
    assert bar.tokens > 0


def test_the_banded_control_says_when_the_set_runs_out():
    with pytest.raises(YieldError, match="only 1 curated rows are solved in 1 to 6 of 8"):
        banded(CURATED[:3], [0, 1, 8], 2)
