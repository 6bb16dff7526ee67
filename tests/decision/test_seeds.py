import json

import numpy as np
import pytest
import statsmodels.stats.weightstats as weightstats

from selfgen.decision import pair
from selfgen.decision.seeds import (
    SeedRun,
    analyse,
    components,
    distinct,
    ledger_plan,
    ledger_seed,
    lines,
    seed_interval,
)
from selfgen.errors import DataError
from tests.decision.rules import REGISTERED, rows

N = 400


def run(seed, selfgen=240, params=None, source=None, digest=None, n=N):
    arms = {"base": rows(180, n), "rl_gsm8k": rows(230, n), "rl_selfgen": rows(selfgen, n)}
    digests = {arm: digest or f"{arm}-{seed}-{selfgen}" for arm in arms}
    return SeedRun(source or f"exp-{seed}", seed, {"seed": seed, **(params or {"steps": 4})}, pair(arms), digests)


def test_each_seed_is_one_replicate_and_the_interval_is_student_s():
    values = [0.025, 0.0375, 0.0, 0.05, 0.0125]
    result = analyse([run(s, 230 + round(v * N)) for s, v in enumerate(values)], REGISTERED)
    first = result["criteria"][0]
    expected = weightstats.DescrStatsW(values).tconfint_mean(0.025)
    assert (first["lower"], first["upper"]) == pytest.approx(expected, abs=1e-12)
    assert first["between_seed_sd"] == pytest.approx(np.std(values, ddof=1))
    assert result["decides"] is False
    json.dumps(result, allow_nan=False)


def test_interval_by_hand():
    # mean .02, sd .01, n = 4: t(.975; 3) = 3.182446; half = 3.182446 * .01 / 2
    lower, upper = seed_interval([0.01, 0.01 + 0.02 / 3, 0.02, 0.043333333], 0.05)
    assert upper - lower == pytest.approx(
        2 * 3.182446 * np.std([0.01, 0.0166667, 0.02, 0.0433333], ddof=1) / 2, rel=1e-5
    )


def test_too_few_seeds_are_said_to_be_too_few():
    assert "nothing can be said" in analyse([run(0)], REGISTERED)["warning"]
    one = analyse([run(0)], REGISTERED)["criteria"][0]
    assert one["lower"] is None
    assert one["components"] is None
    assert "too few" in analyse([run(0), run(1, 250)], REGISTERED)["warning"]
    assert "4 seeds are too few" in analyse([run(s, 240 + s) for s in range(4)], REGISTERED)["warning"]
    assert analyse([run(s, 240 + s) for s in range(5)], REGISTERED)["warning"] is None


def test_components_recover_what_made_the_table():
    rng = np.random.default_rng(0)
    seeds, items = 400, 500
    table = 0.1 * rng.standard_normal((seeds, 1)) + 0.5 * rng.standard_normal((1, items))
    table = table + 0.3 * rng.standard_normal((seeds, items))
    found = components(table)
    assert found["seed"] == pytest.approx(0.01, rel=0.2)
    assert found["item"] == pytest.approx(0.25, rel=0.2)
    assert found["seed_by_item"] == pytest.approx(0.09, rel=0.02)


def test_components_by_hand():
    # [[1, 0], [0, 0]]: row means .5, 0; squares: seed 2 * 2 * .0625 = .25, item .25, rest 4 * .0625 = .25
    found = components(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert found == pytest.approx(
        {"seed": 0, "item": 0, "seed_by_item": 0.25, "mean_by_seeds": 0.0625, "mean_by_items": 0}
    )


def test_runs_that_differ_in_more_than_the_seed_are_never_pooled():
    with pytest.raises(DataError, match=r"exp-0 and exp-1 differ in train\.lr, not only in seed"):
        distinct([run(0, params={"train": {"lr": 1}}), run(1, params={"train": {"lr": 2}})])
    with pytest.raises(DataError, match="different items"):
        distinct([run(0), run(1, n=N + 1)])
    with pytest.raises(DataError, match="share seed 0 but not their rows"):
        distinct([run(0), run(0, 250, source="again")])
    with pytest.raises(DataError, match="no experiment has evaluation rows"):
        distinct([])


def test_an_identical_copy_counts_once_and_is_reported():
    runs, notes = distinct([run(1), run(0), run(0, source="workspace")])
    assert [r.seed for r in runs] == [0, 1]
    assert notes == ["workspace repeats seed 0 of exp-0 exactly; counted once"]


def test_where_samples_came_from_does_not_separate_seeds():
    runs, _ = distinct([run(0, params={"service": "a"}), run(1, params={"service": "b"})])
    assert len(runs) == 2


def test_items_are_matched_by_id_across_seeds():
    other = run(1, 250)
    shuffled = SeedRun(
        "exp-1", 1, other.params, pair({a: rows(k, N)[::-1] for a, k in (("base", 180), ("rl_gsm8k", 230), ("rl_selfgen", 250))}),
        other.digests,
    )  # fmt: skip
    assert analyse([run(0), shuffled], REGISTERED)["criteria"] == analyse([run(0), other], REGISTERED)["criteria"]


def test_ledger_lines_hold_rule_items_params_and_each_seed_s_rows():
    plan = ledger_plan([run(0)], REGISTERED)
    assert plan == ledger_plan([run(7)], REGISTERED)
    assert plan != ledger_plan([run(0, params={"steps": 5})], REGISTERED)
    line = ledger_seed(run(3), REGISTERED)
    assert line["seed"] == 3
    assert line["estimates"]["noninferiority_vs_gsm8k_rl"] == pytest.approx(10 / N)


def test_screen_shows_every_seed_and_the_warning():
    text = "\n".join(lines(analyse([run(0), run(1, 250)], REGISTERED)))
    assert "exp-0" in text
    assert "exp-1" in text
    assert "warning: 2 seeds are too few" in text
