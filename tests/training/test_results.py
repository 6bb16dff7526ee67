"""The loop's log folder read back: one row a step, canonical order, nothing silently missing."""

import json

import pytest

from selfgen.errors import DataError
from selfgen.records import Rollout
from selfgen.training import results


def metrics(step, reward=0.5, **more):
    return {
        "step": step,
        "env/all/reward/total": reward,
        "optim/lr": 0.1,
        "time/total": 1.5,
        "progress/batch": step,
        **more,
    }


def write_lines(path, rows, tail=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)


def summary(group, sample, problem="p0", reward=1.0, tokens=5, logs=True):
    turn = {
        "ac_len": tokens,
        "metrics": {"correct": reward, "format": 1.0},
        "logs": {"problem_id": problem} if logs else {},
    }
    return {"group_idx": group, "traj_idx": sample, "total_reward": reward, "steps": [turn]}


def rollout_file(folder, step, rows):
    write_lines(folder / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl", rows)


def test_a_resumed_runs_repeated_metric_rows_become_one_the_last(tmp_path):
    # What 0.5.8 leaves when it is killed in step 2 and resumes at step 1.
    write_lines(tmp_path / "metrics.jsonl", [metrics(0), metrics(1, 0.1), metrics(1, 0.7), metrics(2)])
    assert [row["step"] for row in results.metric_rows(tmp_path)] == [0, 1, 2]
    assert results.curve(tmp_path, 3)[1] == {"step": 1, "reward": 0.7, "learning_rate": 0.1}
    assert results.step_seconds(tmp_path)[0] == {"step": 0, "time/total": 1.5}


def test_tokens_are_those_of_the_finished_steps_each_once(tmp_path):
    counts = {"env/all/total_ob_tokens": 30, "env/all/total_ac_tokens": 7}
    assert results.tokens(tmp_path) == (0, 0)
    write_lines(tmp_path / "metrics.jsonl", [metrics(0, **counts), metrics(0, **counts), metrics(1, **counts)])
    assert results.tokens(tmp_path) == (60, 14)


def test_a_missing_step_is_an_error_and_not_a_shorter_curve(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", [metrics(0), metrics(2)])
    with pytest.raises(DataError, match="no metrics of step 1"):
        results.curve(tmp_path, 3)


def test_lines_torn_by_a_kill_are_mended_so_that_the_loop_starts_again(tmp_path):
    write_lines(tmp_path / "checkpoints.jsonl", [{"name": "a", "batch": 1}], '{"name": "b", "ba')
    write_lines(tmp_path / "metrics.jsonl", [metrics(0)], '{"step": 1')
    results.mend(tmp_path)
    assert results.checkpoint_rows(tmp_path) == [{"name": "a", "batch": 1}]
    assert (tmp_path / "checkpoints.jsonl").read_text().endswith("}\n")
    assert len(results.metric_rows(tmp_path)) == 1


def test_samples_are_numbered_by_content_so_that_answer_order_does_not_matter(tmp_path):
    rows = [summary(0, k, reward=r, tokens=n) for k, (r, n) in enumerate([(1.0, 7), (0.0, 5), (1.0, 5)])]
    rollout_file(tmp_path / "a", 0, rows)
    rollout_file(tmp_path / "b", 0, [{**row, "traj_idx": k} for k, row in enumerate([rows[2], rows[0], rows[1]])])
    found = results.rollouts(tmp_path / "a", 1)
    assert found == results.rollouts(tmp_path / "b", 1)
    assert [(r.sample, r.n_tokens, r.reward) for r in found] == [(0, 5, 0.0), (1, 5, 1.0), (2, 7, 1.0)]


def test_a_rollout_that_names_no_problem_is_an_error(tmp_path):
    rollout_file(tmp_path, 0, [summary(0, 0, logs=False)])
    with pytest.raises(DataError, match="does not name one problem"):
        results.rollouts(tmp_path, 1)


def test_a_step_without_summaries_is_an_error(tmp_path):
    rollout_file(tmp_path, 0, [summary(0, 0)])
    with pytest.raises(DataError, match="no rollout summaries of step 1"):
        results.rollouts(tmp_path, 2)


def test_mixed_share_counts_groups_whose_rewards_differ():
    def rows(step, group, *rewards):
        return [Rollout(step, group, k, "p", r, r, 1.0, 3) for k, r in enumerate(rewards)]

    every = [*rows(0, 0, 1.0, 1.0), *rows(0, 1, 1.0, -0.1), *rows(1, 0, 0.0, 0.0), *rows(1, 1, 0.0, -0.1)]
    assert results.mixed_share(every) == 0.5
    assert results.mixed_share([]) == 0.0
