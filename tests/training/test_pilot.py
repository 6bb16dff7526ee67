"""The pilot measures and is thrown away."""

import json

import pytest

from selfgen.records import CuratedRow, read_json
from selfgen.training import pilot, preflight

TEST = [CuratedRow(f"t-{i}", f"What is {i} + {i}?", "", str(2 * i)) for i in range(5)]


@pytest.fixture(scope="module")
def found(small, problems, service, tmp_path_factory):
    start = preflight.make_start(small, service, 0)
    folder = tmp_path_factory.mktemp("pilot")
    run = pilot.run(small, "rl_gsm8k", problems, start, TEST, service)
    return run, pilot.write(folder, run), folder


def test_it_reports_reward_mixed_groups_and_the_ids_of_its_two_batches(found):
    measured = read_json(found[2] / "pilot.json")
    assert measured["problem_ids"] == ["p0", "p1", "p2", "p3"]
    assert (measured["steps"], measured["groups"], measured["rollouts"]) == (2, 4, 16)
    assert measured["mean_reward"] == pytest.approx(-0.1)  # a random model: wrong, without a box
    assert measured["mixed_groups"] == 0.0
    assert found[1] == {
        name: measured[name]
        for name in ("mean_reward", "mean_correct", "mean_format", "mixed_groups", "groups", "rollouts")
    }


def test_nothing_volatile_and_no_accuracy_leaves_it(found):
    text = json.dumps(read_json(found[2] / "pilot.json"))
    assert "seconds" not in text
    assert "accuracy" not in text
    assert sorted(p.name for p in found[2].iterdir()) == ["pilot.json", "rollouts.jsonl", "timing.json"]


def test_its_timing_holds_what_the_projection_needs(found):
    timing = read_json(found[2] / "timing.json")
    assert len(timing["step_seconds"]) == 2
    assert timing["eval_items"] == 3
    assert timing["eval_seconds"] > 0
    assert timing["eval_sampled_tokens"] > 0
    assert timing["rollout_sampled_tokens"] == sum(row.n_tokens for row in found[0].trained.rollouts)
    assert timing["overhead_seconds"] >= 0


def test_its_evaluation_is_timed_past_the_journal_which_stays_open(found, small, problems, service):
    journal = service.journal
    again = pilot.run(small, "rl_gsm8k", problems, preflight.make_start(small, service, 0), TEST, service)
    assert service.journal is journal
    assert again.measured == found[0].measured
    assert again.timing["eval_seconds"] > 0
