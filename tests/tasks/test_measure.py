"""The measurement plants what it says, counts by hand-checkable rules, and is the source of the documented table."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen.cli import cli
from selfgen.records import CuratedRow, Task, write_jsonl
from selfgen.tasks import measure
from selfgen.tasks.folding import fold
from selfgen.tasks.numberwords import mentions
from selfgen.tasks.overlap import OverlapIndex
from selfgen.tasks.plants import KINDS, Names, plant

TRAIN = [
    "Yesterday Janet sold 12 eggs to Tom. How many eggs does Tom have?",
    "A baker and Janet bake 1,200 loaves each week. If Tom buys three loaves, how many loaves are left?",
]
QUESTION = (
    "Janet bakes 1,200 loaves of bread and sells three to Tom every week. If she bakes 15 more, how many are left?"
)
NAMES = Names.learn(TRAIN)


def values(text: str) -> list[object]:
    return [m.values[0] for m in mentions(fold(text))]


def test_names_are_learned_where_a_capital_is_no_sentence_start():
    assert NAMES.words == {"Janet", "Tom"}


def test_plants_alter_what_they_say_and_nothing_else():
    for seed in range(30):
        made = {kind: plant(kind, "q", QUESTION, seed, NAMES) or "" for kind in KINDS}
        assert made["exact"] == QUESTION
        assert made["reformatted"] != QUESTION
        assert values(made["reformatted"]) == values(QUESTION)
        assert (
            values(made["paraphrased by rule"]) == values(QUESTION) or "If she bakes" not in made["paraphrased by rule"]
        )
        assert Counter(map(str, values(made["paraphrased by rule"]))) == Counter(map(str, values(QUESTION)))
        swapped = values(made["numbers swapped"])
        assert len(swapped) == 3
        assert all(a != b for a, b in zip(swapped, values(QUESTION), strict=True))
        assert re.sub(r"[\d,]+|\w+(?= to Tom)", "", made["numbers swapped"]) == re.sub(
            r"[\d,]+|\w+(?= to Tom)", "", QUESTION
        )
        renamed = made["names swapped"]
        assert "Janet" not in renamed
        assert "Tom" not in renamed
        assert values(renamed) == values(QUESTION)
        assert "Janet" not in made["names and numbers swapped"]


def test_a_question_without_names_or_numbers_is_left_out_of_those_kinds():
    assert plant("names swapped", "q", "how many are left?", 0, NAMES) is None
    assert plant("numbers swapped", "q", "how many are left?", 0, NAMES) is None
    assert plant("paraphrased by rule", "q", "Nothing here.", 0, NAMES) is None


def test_plants_depend_on_kind_row_and_seed_only():
    assert plant("reformatted", "q", QUESTION, 1, NAMES) == plant("reformatted", "q", QUESTION, 1, NAMES)
    assert len({plant("numbers swapped", row, QUESTION, 1, NAMES) for row in "abcdefgh"}) > 4


def test_rates_carry_exact_intervals():
    rate = measure.Rate.of(0, 100)
    assert (rate.low, rate.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 100), abs=1e-6))
    assert measure.Rate.of(100, 100).low == pytest.approx(0.025 ** (1 / 100), abs=1e-6)
    assert measure.Rate.of(3, 4).show() == "75.0 [19.4, 99.4]"
    assert measure.Rate.of(0, 0).show() == "n/a"


def rows(split: str, questions: list[str]) -> list[CuratedRow]:
    return [CuratedRow(f"x-{split}-{i:05d}", q, "", "1") for i, q in enumerate(questions)]


def test_a_find_is_a_hit_on_the_very_question_it_was_made_from():
    index = OverlapIndex.build(rows("test", [QUESTION, QUESTION]))  # the second is shadowed by the first
    assert measure.recall(index, NAMES, 0)["exact"]["exact"].hits == 1


def test_false_positives_are_listed_for_judging():
    index = OverlapIndex.build(rows("test", [QUESTION]))
    table, found = measure.false_positives(index, {"clean": rows("train", [*TRAIN, QUESTION])})
    assert table["clean"]["exact"] == measure.Rate.of(1, 3)
    assert {hit["text_id"] for hit in found} == {"x-train-00002"}


def write_gsm8k(folder: Path) -> None:
    for split, questions in (("train", TRAIN), ("test", [QUESTION])):
        lines = [json.dumps({"question": q, "answer": "so\n#### 1"}) for q in questions]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def test_the_command_prints_the_tables_and_writes_them_between_the_marks(tmp_path: Path):
    write_gsm8k(tmp_path)
    page, out = tmp_path / "page.md", tmp_path / "out.json"
    page.write_text(f"before\n{measure.START}\nold\n{measure.END}\nafter\n")
    args = ["overlap", "--measure", "--data", str(tmp_path), "--standins", "5", "--docs", str(page), "--out", str(out)]
    done = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "| reformatted | 1 | 100.0 [2.5, 100.0] |" in done.output
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| templated stand-ins | 5 |" in text
    assert json.loads(out.read_text())["recall"]["exact"]["exact"]["n"] == 1


def test_a_page_without_marks_is_refused(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(measure.DataError, match="needs the lines"):
        measure.into_docs(page, "table")


def test_without_measure_the_command_explains_the_hits_of_a_task_file(tmp_path: Path):
    write_gsm8k(tmp_path)
    tasks = tmp_path / "tasks.jsonl"
    write_jsonl(tasks, [Task("task-0", "cand-0", 0, QUESTION.lower(), "", 1, 3, 8)])
    done = CliRunner().invoke(cli, ["overlap", "--data", str(tmp_path), "--tasks", str(tasks)], catch_exceptions=False)
    assert "task-0 exact gsm8k-test-00000 (1.00)" in done.output
    assert '"exact": 1' in done.output


def test_recall_on_gsm8k_stays_what_the_docs_say(gsm8k_dir: Path):
    train = [json.loads(line)["question"] for line in (gsm8k_dir / "train.jsonl").open()]
    test = [json.loads(line)["question"] for line in (gsm8k_dir / "test.jsonl").open()]
    index = OverlapIndex.build([CuratedRow(f"gsm8k-test-{i:05d}", q, "", "1") for i, q in enumerate(test)])
    names, rng = Names.learn(train), random.Random(0)
    sample = rng.sample(range(len(test)), 150)

    def found(kind: str, detector: str) -> float:
        texts = [(i, t) for i in sample if (t := plant(kind, f"gsm8k-test-{i:05d}", test[i], 7, names))]
        return sum(
            (m := index.match(detector, t)) is not None and m.row == f"gsm8k-test-{i:05d}" for i, t in texts
        ) / len(texts)

    assert found("exact", "exact") == 1
    assert found("reformatted", "exact") >= 0.98
    assert found("paraphrased by rule", "minhash") >= 0.85
    assert found("numbers swapped", "masked") >= 0.98
    assert found("names and numbers swapped", "masked") >= 0.98
