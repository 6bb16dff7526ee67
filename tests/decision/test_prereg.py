import json
from pathlib import Path

import pytest
import yaml

from selfgen.decision import prereg
from selfgen.errors import DataError
from selfgen.params import Params, load
from tests.decision import project

ITEMS = [f"item-{k:03d}" for k in range(project.N)]


@pytest.fixture
def here(tmp_path, root):
    """(checkout, params) of a fresh project."""
    checkout = tmp_path / "checkout"
    project.make(checkout, root / "params.yaml")
    return checkout, load(checkout / "params.yaml")


def register(checkout, params, *, items=ITEMS, seeds=(0,), commit=True, replace=False):
    content = prereg.plan(params, items, seeds, prereg.current_code(checkout, embedded=False))
    path, _ = prereg.register(content, checkout, replace=replace)
    if commit:
        project.git(checkout, "add", "prereg")
        project.git(checkout, "commit", "-q", "-m", "plan")
    return path


def evaluated(checkout):
    """Rows evaluated from the current commit."""
    project.write_provenance(checkout, project.git(checkout, "rev-parse", "HEAD"))


def state(checkout, params):
    return prereg.registration(params, ITEMS, project.ARMS, checkout / "data", checkout)


def remote(params):
    """Params whose code needs no embedded server."""
    return params.model_copy(update={"service": params.service.model_copy(update={"kind": "remote"})})


def test_the_decide_stage_depends_on_all_that_a_plan_compares_and_on_nothing_else(root):
    """DVC runs it again when, and only when, what it says of the plan can have changed."""
    stages = yaml.safe_load((root / "dvc.yaml").read_text())["stages"]
    planned = set(Params.model_fields) - prereg._NOT_PLANNED
    assert set(stages["decide"]["params"]) == planned | {"seed"}
    compared = [path for path in stages["code"]["outs"] if Path(path).stem not in prereg._NOT_CODE]
    others = [str(prereg.FOLDER), "data/curated/test.jsonl", "data/eval"]
    assert sorted(stages["decide"]["deps"]) == sorted([*compared, *others])


def test_plan_committed_before_evaluation_and_unchanged(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    evaluated(checkout)
    found = state(checkout, params)
    assert found["before_first_row"] is True
    assert found["changes"] == []
    assert "was registered before the first evaluation row existed" in found["statement"]
    assert "nothing in it changed" in found["statement"]


def test_plan_written_after_the_rows_is_said_to_be_late(here):
    checkout, params = here[0], remote(here[1])
    evaluated(checkout)
    register(checkout, params)
    found = state(checkout, params)
    assert found["before_first_row"] is False
    assert "NOT registered before" in found["statement"]


def test_one_arm_evaluated_earlier_is_enough_to_be_late(here):
    checkout, params = here[0], remote(here[1])
    first = project.git(checkout, "rev-parse", "HEAD")
    register(checkout, params)
    evaluated(checkout)
    (checkout / "data/eval/rl_gsm8k/provenance.json").write_text(json.dumps({"git": {"commit": first}}))
    found = state(checkout, params)
    assert found["before_first_row"] is False
    assert "rl_gsm8k" in found["reason"]


def test_a_plan_registered_anew_after_the_rows_does_not_inherit_the_old_one_s_date(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    evaluated(checkout)
    register(checkout, params, seeds=(0, 1), replace=True)
    found = state(checkout, params)
    assert found["before_first_row"] is False
    assert "another plan" in found["reason"]


def test_a_plan_that_was_only_written_and_not_committed_does_not_count(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params, commit=False)
    evaluated(checkout)
    assert state(checkout, params)["before_first_row"] is False
    assert prereg.committed(prereg.plan_path(params.scale), checkout) is None


def test_without_recorded_commits_nothing_is_claimed(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    assert state(checkout, params)["before_first_row"] is None
    project.write_provenance(checkout, None)
    assert state(checkout, params)["before_first_row"] is None
    assert "recorded no git commit" in state(checkout, params)["reason"]
    project.write_provenance(checkout, "0" * 40)
    assert "not in this clone" in state(checkout, params)["reason"]


def test_no_plan_at_all_makes_the_verdict_exploratory(here):
    found = state(here[0], here[1])
    assert found["registered"] is False
    assert "exploratory" in found["statement"]


def test_every_change_is_listed_with_both_values(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    evaluated(checkout)
    other = params.model_copy(
        update={
            "seed": 5,
            "filter": params.filter.model_copy(update={"max_words": 99}),
            "decision": params.decision.model_copy(update={"alpha": 0.1}),
        }
    )
    (checkout / "stages/eval.py").write_text("print('evaluate twice')\n")
    from selfgen import closure

    closure._parsed.cache_clear()
    found = {c["what"]: (c["registered"], c["now"]) for c in state(checkout, other)["changes"]}
    assert found["params.filter.max_words"] == (120, 99)
    assert found["params.decision.alpha"] == (0.05, 0.1)
    assert found["seeds"] == ([0], [5])
    assert "code.stages/eval.py" in found
    assert len(found) == 4


def test_a_reworded_comment_is_no_change(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    (checkout / "stages/eval.py").write_text("# why\nprint('evaluate')\n")
    assert state(checkout, params)["changes"] == []


def test_other_items_are_a_change(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params, items=ITEMS[:-1])
    found = {c["what"] for c in state(checkout, params)["changes"]}
    assert found == {"items.n", "items.sha256"}


def test_where_samples_come_from_and_a_planned_further_seed_are_no_change(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params, seeds=(0, 1, 2))
    other = params.model_copy(
        update={"seed": 2, "service": params.service.model_copy(update={"concurrency": 3, "device": "cuda"})}
    )
    assert state(checkout, other)["changes"] == []


def test_registering_again_needs_a_word_when_anything_differs(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params)
    content = prereg.plan(params, ITEMS, [0], prereg.current_code(checkout, embedded=False))
    assert prereg.register(content, checkout, replace=False)[1] == "unchanged"
    more = prereg.plan(params, ITEMS, [0, 1], content["code"])
    with pytest.raises(DataError, match="another plan is registered"):
        prereg.register(more, checkout, replace=False)
    assert prereg.register(more, checkout, replace=True)[1] == "replaced"


def test_an_edited_plan_is_refused(here):
    checkout, params = here[0], remote(here[1])
    path = checkout / register(checkout, params)
    path.write_text(path.read_text().replace('"max_words": 120', '"max_words": 121'))
    with pytest.raises(DataError, match="edited after it was registered"):
        prereg.read_plan(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="not a registered plan"):
        prereg.read_plan(path)


def test_the_plan_says_what_the_rule_needs(here):
    checkout, params = here[0], remote(here[1])
    register(checkout, params, commit=False)
    assert any("validate it" in s for s in project.plan_text(checkout, params.scale)["power"])
