"""The yield's numbers are right on hand-worked sets, and show difficulty collapse and narrowness."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from selfgen.records import Candidate, Completion, CuratedRow, Rejection, Task
from selfgen.tasks import yields
from selfgen.tasks.label import Labelled
from selfgen.tasks.normalise import Masker


def task(index: int, problem: str = "A farmer has hens.", label: int = 7, n_correct: int = 3) -> Task:
    return Task(f"task-{index}", f"cand-{index}", index, problem, "", label, n_correct, 8)


def rejected(reason: str, n_correct: int | None) -> Rejection:
    return Rejection("cand-9", 9, reason, "", "", n_correct=n_correct)


def test_difficulty_counts_everything_that_was_sampled():
    found = yields.difficulty(
        [task(0, n_correct=1), task(1, n_correct=6)],
        [
            rejected("pass_rate_low", 0),
            rejected("pass_rate_high", 8),
            rejected("pass_rate_high", 8),
            rejected("no_code", None),
        ],
        8,
    )
    assert found == {
        "sampled": 5,
        "right_of_n": [1, 1, 0, 0, 0, 0, 1, 0, 2],
        "mean_pass_rate": 0.575,
        "share_never": 0.2,
        "share_always": 0.4,
    }
    assert yields.difficulty([], [], 2) == {
        "sampled": 0,
        "right_of_n": [0, 0, 0],
        "mean_pass_rate": None,
        "share_never": None,
        "share_always": None,
    }


def test_quantiles_are_members_of_the_sample():
    assert yields.quantiles([5, 1, 3]) == {
        "p00": 1,
        "p05": 1,
        "p25": 1,
        "p50": 3,
        "p75": 5,
        "p95": 5,
        "p100": 5,
        "mean": 3.0,
    }
    assert yields.quantiles([]) is None


def test_lengths_and_answers():
    found = yields.lengths(["one two three", "a " * 25])
    assert found["words"]["p100"] == 25
    assert found["bins"] == {"000": 1, "020": 1}
    found = yields.answers([7, 7, -12, 1000])
    assert found["distinct"] == 3
    assert found["by_digits"] == {"-2": 1, "1": 2, "4": 1}
    assert found["commonest"][0] == {"answer": 7, "tasks": 2}


MASKER = Masker.learn(["How many hens does Anna have? One day Anna sold a hen to Tom, and she ate an egg."])


def test_retold_stories_are_distinct_only_until_numbers_and_names_are_masked():
    told = [
        f"{name} has {n} hens and sells {n - 1}. How many hens are left?"
        for name, n in (("Anna", 9), ("Tom", 12), ("Olga", 40))
    ]
    narrow = yields.diversity(told, MASKER)
    assert narrow["distinct"] == 1
    assert narrow["distinct_masked"] == pytest.approx(1 / 3, abs=1e-6)
    assert narrow["largest_stories"] == [{"masked": "@ has # hens and sells # how many hens are left", "tasks": 3}]
    wide = yields.diversity(
        [told[0], "A train leaves at noon with people on board.", "Two pumps fill one tank in an hour."], MASKER
    )
    assert wide["distinct_masked"] == 1
    assert wide["largest_stories"] == []
    assert wide["nearest_other"]["p100"] < narrow["nearest_other"]["p00"]
    assert wide["distinct_3grams"] > narrow["distinct_3grams"]
    assert yields.diversity([], MASKER) == {"problems": 0}


def test_the_nearest_other_text_is_never_the_text_itself():
    assert yields.nearest_other([list("abcd"), list("abcd"), list("wxyz")]) == [1.0, 1.0, 0.0]
    assert yields.nearest_other([list("abcd")]) == [0.0]


def test_similarity_to_the_curated_set():
    curated = [CuratedRow("q-0", "A farmer has nine hens and sells two of them.", "", "7")]
    near = yields.nearest_curated(
        ["A farmer has nine hens and sells two of them today.", "Nothing alike at all here."], curated
    )
    assert near is not None
    assert near["p00"] == 0.0
    assert near["p100"] == pytest.approx(8 / 9)


def test_spent_counts_what_streams_by_and_changes_nothing():
    batches = [[Completion("7", 5, "stop"), Completion("8", 512, "length")], [Completion("9", 1, "stop")]]

    def solve(rows: Iterable[Labelled]) -> Iterator[list[Completion]]:
        yield from batches

    spent = yields.Spent()
    row = Labelled(Candidate("cand-0", 0, "", 1, "stop"), "", "", 7)
    assert list(spent.metered(solve)([row, row])) == batches
    assert spent == yields.Spent(requests=2, samples=3, tokens=518, truncated=1)
    found = yields.cost(2, 482, spent)
    assert found["tokens_per_accepted"] == 500.0
    assert found["share_of_samples_truncated"] == pytest.approx(1 / 3, abs=1e-6)
    assert yields.cost(0, 482, spent)["tokens_per_accepted"] is None
    assert yields.pace(4, {"generate": 6.0, "filter": 2.0})["seconds_per_accepted"] == 2.0


def test_the_summary_is_json_and_equal_for_equal_rows():
    curated = [
        CuratedRow(f"q-{i}", f"Anna has {i} hens and eats {i} eggs. How many are left?", "", "1") for i in range(20)
    ]
    tasks = [task(i, f"Tom has {i} cows and buys {i + 3} pigs from Anna. How many animals now?", i) for i in range(10)]
    made = [yields.summarise(tasks, iter([rejected("pass_rate_low", 0)]), 8, curated) for _ in range(2)]
    assert json.dumps(made[0], sort_keys=True) == json.dumps(made[1], sort_keys=True)
    assert made[0]["difficulty"]["sampled"] == 11
    assert made[0]["reference"]["diversity"]["problems"] == 10
    assert yields.summarise([], [], 8, curated)["nearest_curated"] is None


def test_the_headline_is_flat_and_survives_an_empty_set():
    curated = [CuratedRow("q-0", "Anna has nine hens and sells two of them. How many are left?", "", "7")]
    for tasks in ([task(0)], []):
        found = yields.summarise(tasks, [], 8, curated) | {"cost": yields.cost(len(tasks), 10, yields.Spent())}
        headline = yields.headline(found)
        assert all(value is None or isinstance(value, int | float) for value in headline.values())
        assert (headline["tokens_per_accepted"] == 10.0) == bool(tasks)
