"""Every detector finds what it promises, explains it, and leaves unrelated questions alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from selfgen.records import CuratedRow, Task
from selfgen.tasks.overlap import (
    DETECTORS,
    MinHashIndex,
    OverlapIndex,
    ShingleIndex,
    containment,
    jaccard,
    shared_passages,
    shingles,
    summarise,
)

QUESTIONS = [
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and sells the remainder at the "
    "market daily for $2 per egg. How much in dollars does she make every day at the market?",
    "A robe takes 2 bolts of blue fiber and half that much white fiber. How many bolts in total does it take?",
    "On Monday Peter ran 3 sprints of 60 meters. He ran the same on Friday. How many meters did he run?",
]
INDEX = OverlapIndex.build([CuratedRow(f"q-{i}", q, "", "1") for i, q in enumerate(QUESTIONS)])
PASTED = "Read this well before you answer. " + QUESTIONS[0] + " Show your work and give only one whole number."
SWAPPED = (
    QUESTIONS[0]
    .replace("Janet", "Bogdan")
    .replace("She", "He")
    .replace("she", "he")
    .replace("16", "two dozen")
    .replace("three", "11")
)
UNRELATED = (
    "A train leaves at noon with forty people on board. Five get off at each of the next four stations. How many stay?"
)


def hits(problem: str) -> set[str]:
    return {detector for detector, match in INDEX.report(problem).items() if match}


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (QUESTIONS[0], set(DETECTORS)),
        (QUESTIONS[0].upper().replace("$2", "$2.00"), set(DETECTORS)),
        (PASTED, {"ngram", "minhash", "masked"}),
        (SWAPPED, {"ngram", "minhash", "masked"}),
        (
            QUESTIONS[2]
            .replace("Peter", "Olga")
            .replace("3", "7")
            .replace("60", "95")
            .replace("Monday", "Sunday")
            .replace("Friday", "Tuesday"),
            {"masked"},
        ),
        (UNRELATED, set()),
        ("", set()),
        ("7", set()),
    ],
)
def test_which_detectors_hit(problem: str, expected: set[str]):
    assert hits(problem) == expected


def test_a_match_names_the_row_the_score_and_the_passages():
    match = INDEX.match("ngram", PASTED)
    assert match is not None
    assert (match.row, match.score) == ("q-0", 1.0)
    assert match.evidence[0].startswith("janets ducks lay 16 eggs per day")
    assert match.evidence[0].endswith("make every day at the market")
    assert "q-0" in match.explain()
    masked = INDEX.match("masked", SWAPPED)
    assert masked is not None
    assert masked.evidence[0].startswith("@ ducks lay # eggs per day")


def test_evidence_is_the_longest_shared_passages_first():
    words = ["a", "b", "c", "d", "x", "e", "f", "g", "h", "i", "y", "z"]
    other = frozenset(shingles(["a", "b", "c", "d"], 3) + shingles(["e", "f", "g", "h", "i"], 3))
    assert shared_passages(words, 3, other) == ("e f g h i", "a b c d")
    assert shared_passages(["z"], 3, other) == ()


def test_shingles_of_a_short_text_are_the_text():
    assert shingles(["a", "b"], 3) == ["a b"]
    assert shingles([], 3) == []
    assert shingles(["a", "b", "c", "d"], 3) == ["a b c", "b c d"]


def test_the_inverted_index_equals_a_comparison_with_every_row():
    rng = random.Random(0)
    rows = [[rng.choice("abcdefg") for _ in range(rng.randint(0, 30))] for _ in range(60)]
    for similarity in (containment, jaccard):
        index = ShingleIndex(((str(i), r) for i, r in enumerate(rows)), 3, similarity)
        for query in rows[:20] + [[rng.choice("abcdefgh") for _ in range(12)] for _ in range(20)]:
            grams = set(shingles(query, 3))
            scores = []
            for row in rows:
                other = set(shingles(row, 3))
                shared = len(grams & other)
                scores.append(similarity(shared, len(grams), len(other)) if shared else 0.0)
            best, score = index.nearest(query)
            assert score == max(scores)
            assert best == (scores.index(score) if score else None)


def test_nearest_can_leave_out_the_text_itself():
    index = ShingleIndex([("0", list("abcdef")), ("1", list("abcxyz")), ("2", list("uvw"))], 3, jaccard)
    assert index.nearest(list("abcdef"), skip=0) == (1, pytest.approx(1 / 7))
    assert index.nearest(list("uvw"), skip=2) == (None, 0.0)


def test_minhash_scores_are_exact_jaccard_similarities():
    rows = [(str(i), q.split()) for i, q in enumerate(QUESTIONS)]
    index = MinHashIndex(rows, 3, 0.4, 128)
    query = QUESTIONS[0].replace("remainder", "rest").split()
    row, score = index.nearest(query)
    a, b = set(shingles(query, 3)), set(shingles(QUESTIONS[0].split(), 3))
    assert (row, score) == (0, len(a & b) / len(a | b))


def test_two_indexes_of_the_same_rows_report_the_same_bytes():
    other = OverlapIndex.build(list(INDEX.rows))
    for text in (*QUESTIONS, PASTED, SWAPPED):
        assert json.dumps(other.report(text)) == json.dumps(INDEX.report(text))


def test_looser_indexes_are_built_only_when_asked_for():
    index = OverlapIndex.build(list(INDEX.rows))
    assert index.exact(QUESTIONS[1].lower()) == "q-1"
    assert index.exact(UNRELATED) is None
    assert index._indexes == {}


def task(index: int, problem: str) -> Task:
    return Task(f"task-{index}", f"cand-{index}", index, problem, "", 1, 3, 8)


def test_the_summary_counts_every_detector_explains_every_hit_and_names_duplicates():
    tasks = [task(0, UNRELATED), task(1, QUESTIONS[1]), task(2, SWAPPED), task(3, UNRELATED.upper())]
    found = summarise(tasks, INDEX, ("exact",))
    assert found["accepted"] == 4
    assert found["rejecting"] == ["exact"]
    assert found["generated_eval_exact_overlaps"] == 1
    assert found["hits"] == {"exact": 1, "ngram": 2, "minhash": 2, "masked": 2, "self": 1}
    assert [(m["task_id"], m["detector"], m["row"]) for m in found["matches"]] == [
        *(("task-1", d, "q-1") for d in DETECTORS),
        *(("task-2", d, "q-0") for d in ("ngram", "minhash", "masked")),
    ]
    assert found["self_duplicates"] == [{"task_id": "task-3", "candidate_id": "cand-3", "same_as": "cand-0"}]
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(summarise(map(replace, tasks), INDEX, ["exact"])))
