"""The page holds what it must, escapes what models wrote, and is the same for the same run."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from selfgen import report
from selfgen.errors import DataError
from selfgen.params import Params, Price
from selfgen.records import CuratedRow, Rejection, Task, read_jsonl, write_json
from selfgen.report import making, page
from selfgen.report.run import load
from selfgen.tasks import yields
from tests.report import tree


@pytest.fixture(scope="module")
def params(root: Path) -> Params:
    return tree.params(root)


@pytest.fixture(scope="module")
def html(root: Path) -> str:
    return tree.html(root)


class Structure(HTMLParser):
    """Tags and attributes of a page, and the elements left open at its end."""

    VOID = ("meta", "link", "br", "wbr", "path", "use", "line", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_every_element_is_closed_where_it_should_be(html: str) -> None:
    found = Structure()
    found.feed(html)
    assert found.open == []


def test_nothing_is_loaded_and_nothing_runs(html: str) -> None:
    found = Structure()
    found.feed(html)
    assert not {"script", "iframe", "img", "object", "embed"} & set(found.tags)
    addresses = [value for name, value in found.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(value is not None and value.startswith(("#", "data:,")) for value in addresses)
    assert not [name for name, _ in found.attributes if name.startswith("on")]


def test_what_a_model_wrote_is_text(html: str) -> None:
    assert "<i>take</i>" not in html
    assert "&lt;i&gt;take&lt;/i&gt;" in html


@pytest.mark.parametrize(
    "wanted",
    [
        'id="criteria"', 'id="accuracy"', 'id="flips"', 'id="sensitivity"', 'id="power"', 'id="training"', 'id="funnel"',
        'id="tasks"', 'id="audit"', 'id="gate"', 'id="preflight"', 'id="cost"', 'id="provenance"', 'id="commands"',
        "What this does not show", "selfgen_frac_groups_nonzero_reward_variance_pilot", "execution_out_of_range",
        "Worked solution", "selfgen verify", "Optimizer as sent", "Known before any money is spent",
    ],
)  # fmt: skip
def test_every_part_of_the_report_is_there(html: str, wanted: str) -> None:
    assert wanted in html


def test_equal_runs_give_equal_bytes(root: Path, html: str) -> None:
    assert page.render(load(*tree.finished(root))) == html


def test_twenty_random_tasks_are_shown_with_code_label_and_pass_rate(html: str) -> None:
    shown = html.split('id="tasks"')[1].split('id="audit"')[0]
    assert shown.count("<summary><code>task-") == 20
    assert "hens = " in shown
    assert " of 8" in shown


def test_the_portrait_of_the_tasks_is_what_the_filter_wrote(root: Path, html: str) -> None:
    run = load(*tree.finished(root))
    assert run.yields is not None
    measures = {name: (own, other) for name, own, other in making.variety(run)}
    assert measures["problems"] == ("80", "80")
    assert (
        measures["distinct after masking numbers and names"][0]
        == f"{100 * run.yields['diversity']['distinct_masked']:.1f} %"
    )
    assert measures["similarity to the nearest curated question"][0].startswith(
        f"{run.yields['nearest_curated']['p50']:.2f} ("
    )
    facts = dict(making.effort(run))
    assert (
        facts["sampled tokens an accepted task"] == "300"
    )  # 200 candidates of 100 tokens, 4,000 to solve, 80 accepted
    assert facts["attempts cut off at the limit"] == "12.5 %"
    for text in (*measures, *facts):
        assert text in html


def test_a_portrait_shows_time_and_money_of_the_run(root: Path) -> None:
    run = load(*tree.finished(root))
    price = {"prefill": 1.0, "sample": 2.0, "train": 9.0}
    budget = run.params.budget.model_copy(update={"prices": {run.params.model.name: Price(**price)}})
    provenance = {
        "generate": {"seconds": 60.0, "tokens": {"requests": 3, "journal_hits": 0, "prompt_tokens": 500_000}},
        "filter": {"seconds": 20.0, "tokens": {"requests": 1, "journal_hits": 4, "sampled_tokens": 1_000_000}},
    }
    run = replace(run, params=run.params.model_copy(update={"budget": budget}), provenance=provenance)
    facts = dict(making.effort(run))
    assert facts["time of generate in this run"] == "60.0 s"
    assert facts["time an accepted task"] == "1.0 s"
    assert facts["answered from the journal"].startswith("4 of 8 requests")
    assert facts["paid in this run"].startswith("2.50 USD")


def test_collapsed_difficulty_and_retold_stories_can_be_seen(tmp_path: Path, root: Path) -> None:
    where = tree.copy(root, tmp_path / "run")
    tasks = list(read_jsonl(where / "data/filter/tasks.jsonl", Task))
    told = [replace(t, problem=f"Mara keeps {n} hens and buys {n + 2}. How many?") for n, t in enumerate(tasks, 3)]
    curated = list(read_jsonl(where / "data/curated/test.jsonl", CuratedRow))
    refused = [Rejection(t.id, t.index, "pass_rate_high", "", "", n_correct=8) for t in tasks]
    made = yields.summarise(told, refused, 8, curated)
    write_json(where / "data/filter/yields.json", {**made, "cost": yields.cost(80, 1, yields.Spent())})
    page_text = page.render(load(where, tree.finished(root)[1]))
    assert "8: 80" in page_text
    assert "Stories told more than once" in page_text
    shown = {name: own for name, own, _ in making.variety(load(where, tree.finished(root)[1]))}
    assert shown["distinct after masking numbers and names"] == "1.2 %"


def test_build_writes_the_page_and_the_filled_plan(tmp_path: Path, root: Path) -> None:
    report.build(tree.copy(root, tmp_path / "run"), tree.finished(root)[1])
    plan = json.loads((tmp_path / "run/reports/experiment.json").read_text(encoding="utf-8"))
    assert plan["feasibility_check"]["status"] == "within_budget"
    assert plan["activation_gate"]["metrics"]["generated_eval_exact_overlaps"] == 0.0
    assert (tmp_path / "run/reports/index.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_missing_artifact_is_named(tmp_path: Path, root: Path) -> None:
    tree.copy(root, tmp_path / "run")
    (tmp_path / "run/data/gate/gate.json").unlink()
    with pytest.raises(DataError, match=r"gate\.json: no such file"):
        report.build(tmp_path / "run", tree.finished(root)[1])


def test_a_stopped_run_has_a_page_that_says_what_stopped_it(tmp_path: Path, params: Params) -> None:
    tree.make(tmp_path, params, until="audit", audit_errors=1)
    run = load(tmp_path, params, partial=True)
    text = page.render(run)
    assert "Stopped by the audit before any training" in text
    assert "Not reached" in text
    assert 'id="training"' not in text
    assert "Stopped by the audit" in page.markdown(run)


def test_an_empty_project_has_a_page_too(tmp_path: Path, params: Params) -> None:
    assert "there is no verdict yet" in page.render(load(tmp_path, params, partial=True))


def test_markdown_tables_survive_pipes_and_tags(root: Path) -> None:
    text = page.markdown(load(*tree.finished(root)))
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) > 10
    assert "<b>" not in text
    assert "\n\n\n" not in text


def test_at_spec_size_the_page_stays_under_5_mb(tmp_path: Path, root: Path) -> None:
    arms = {"rl_gsm8k": {"data": "curated"}, "rl_selfgen": {"data": "tasks"},
            "rl_random_reward": {"data": "tasks", "reward": "random"}}  # fmt: skip
    params = tree.params(root, "spec", arms=arms)
    # 512 tokens are about 2,000 characters of English.
    tree.make(tmp_path, params, n_test=1319, n_train=700, completion_words=500, rejected=3000)
    assert len(page.render(load(tmp_path, params)).encode()) < 5_000_000
