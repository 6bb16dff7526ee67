"""GSM8K in canonical form: the same bytes from every source, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfgen.curated import gsm8k
from selfgen.curated.load import load
from selfgen.errors import DataError, ParamsError
from selfgen.params import CuratedParams, Sha256Pins

TRAIN = "30845663ceb1f41c56edef3267bbf67ae9ca8f9ca20f4ce9cd3b314613c33e9b"
TEST = "cfbb9d36afd7f0e1e75f3202c048c1edee13c3994552a652419f98c6d0ad9eee"


def folder(path: Path, answer: str = "One and one is <<1+1=2>>2.\n#### 2", test_question: str = "And now?") -> Path:
    for split, question in (("train", "How many?"), ("test", test_question)):
        (path / f"{split}.jsonl").write_text(json.dumps({"question": question, "answer": answer}) + "\n")
    return path


def params(source: object, **more: object) -> CuratedParams:
    return CuratedParams(loader="gsm8k", source=str(source), **more)


def test_the_original_files_give_the_pinned_bytes(gsm8k_dir: Path) -> None:
    rows = load(params(gsm8k_dir, sha256=Sha256Pins(train=TRAIN, test=TEST)))
    assert (len(rows["train"]), len(rows["test"])) == (7473, 1319)
    assert rows["train"][0].id == "gsm8k-train-00000"
    assert rows["test"][0].answer == "18"
    assert all(row.answer == str(int(row.answer)) for split in rows.values() for row in split)


def test_hub_rows_give_the_same_bytes_as_the_folder(gsm8k_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def hub(source: str, config: str, *, split: str, revision: str) -> datasets.Dataset:
        asked.append((source, config, split, revision))
        return datasets.Dataset.from_json(str(gsm8k_dir / f"{split}.jsonl"))

    monkeypatch.setattr(datasets, "load_dataset", hub)
    rows = gsm8k.load("openai/gsm8k", "main", "rev")
    assert gsm8k.digest(rows["train"]) == TRAIN
    assert gsm8k.digest(rows["test"]) == TEST
    assert asked == [("openai/gsm8k", "main", "train", "rev"), ("openai/gsm8k", "main", "test", "rev")]


def test_other_bytes_are_refused_unless_accepted(tmp_path: Path) -> None:
    source = folder(tmp_path)
    pins = Sha256Pins(train=TRAIN, test=TEST)
    with pytest.raises(DataError, match=r"train has sha256 .* pinned is 30845663ceb1f41c\.\.\..*accept_changed: true"):
        load(params(source, sha256=pins))
    assert load(params(source, sha256=pins, accept_changed=True))["train"][0].answer == "2"


def test_thousands_separators_leave_the_answer(tmp_path: Path) -> None:
    assert load(params(folder(tmp_path, "Much.\n#### 1,234")))["train"][0].answer == "1234"


@pytest.mark.parametrize("answer", ["no final line", "#### 1/2", "#### 2.5"])
def test_a_row_without_a_final_integer_is_named(tmp_path: Path, answer: str) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl: row 0: field answer has no final line"):
        load(params(folder(tmp_path, answer)))


def test_a_torn_line_is_named(tmp_path: Path) -> None:
    source = folder(tmp_path)
    with open(source / "test.jsonl", "a") as file:
        file.write('{"question": "cut')
    with pytest.raises(DataError, match=r"test\.jsonl:2: not a JSON object"):
        load(params(source))


def test_a_missing_split_and_a_missing_folder_say_what_is_needed(tmp_path: Path) -> None:
    source = folder(tmp_path)
    (source / "test.jsonl").unlink()
    with pytest.raises(DataError, match=r"test\.jsonl: no such file; curated.source must hold"):
        load(params(source))
    with pytest.raises(DataError, match=r"no such folder; give one with train.jsonl and test.jsonl, or a Hub id"):
        load(params(tmp_path / "nowhere"))


def test_a_question_in_both_splits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 questions are in both splits"):
        load(params(folder(tmp_path, test_question="How many?")))


def test_unknown_loader_and_too_many_rows(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="unknown 'gsm9k'; known: gsm8k, standin"):
        load(CuratedParams(loader="gsm9k"))
    with pytest.raises(DataError, match=r"curated\.n_train: 5 rows asked for, 1 there"):
        load(params(folder(tmp_path), n_train=5))
