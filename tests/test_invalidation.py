"""What re-runs when a param or a source file changes: what the experiment's logic says, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from selfgen.commands import compose
from tests.support import invalidation
from tests.support.invalidation import by_file, by_param, families, leaves, source_files, stages

SAMPLES = ("generate", "filter", "audit", "preflight", "subset", "pilot", "train", "eval_base", "eval")
ALL = ("curated", *SAMPLES[:6], "gate", *SAMPLES[6:], "decide", "report")

# The expectation, from the experiment's logic, without `decide` and `report`: see PLAN.
PARAMS: dict[str, tuple[str, ...]] = {
    "scale": (),
    "seed": ("preflight", "subset", "pilot", "train"),
    "service.kind": ("code", *SAMPLES),
    "service.device": SAMPLES,
    "service.dtype": SAMPLES,
    "service.concurrency": (),
    "model.name": ("generate", "filter", "preflight", "subset", "pilot", "gate", "train", "eval_base", "eval"),
    "model.tokenizer": ("generate", "filter", "subset", "pilot", "train", "eval_base", "eval"),
    "model.renderer": ("generate", "filter", "subset", "pilot", "train", "eval_base", "eval"),
    "model.lora_rank": ("preflight", "pilot", "train"),
    "auditor.*": ("audit",),
    "curated.*": ("curated",),
    "transfer*": ("curated",),
    "generate.*": ("generate",),
    "filter.n_accept": ("filter",),
    "filter.min_words": ("filter",),
    "filter.max_words": ("filter",),
    "filter.decontaminate.*": ("filter",),
    "filter.solve.*": ("filter", "subset"),  # an arm of GSM8K problems under the tasks' own pass-rate rule
    "audit.*": ("audit",),
    "preflight.*": ("preflight",),
    "pilot.*": ("pilot",),
    "budget.*": ("gate",),
    "gate.*": ("gate",),
    "train.problems": ("subset",),
    "train.steps": ("gate", "train"),  # the gate projects the cost of all steps
    "train.group_size": ("pilot", "train"),
    "train.groups_per_batch": ("pilot", "train"),
    "train.max_tokens": ("pilot", "train"),
    "train.few_shot": ("filter", "audit", "subset", "pilot", "train"),  # every prompt of the training kind
    "train.loss_fn": ("preflight", "pilot", "train"),
    "train.optimizer.*": ("preflight", "pilot", "train"),
    "train.save_every": (),
    "eval.repeat": ("gate", "eval_base", "eval"),
    "eval.*": ("pilot", "gate", "eval_base", "eval"),  # the pilot times some items, the gate projects all
    "arms.*": ("preflight", "subset", "pilot", "gate", "train"),
    "decision.*": ("gate",),  # the gate states what the rule can validate before money is spent
    "tracking.*": (),
}

# `decide` compares these with the registered plan; what is measured beside it, where the service runs, what it may cost and who watches are no part of it.
NO_PLAN = ("transfer*", "service.*", "budget.*", "tracking.*")

# Likewise without `decide`, but for what only it runs.
MODULES: dict[str, tuple[str, ...]] = {
    # What everything stands on.
    "selfgen/__init__.py": ALL,
    "selfgen/errors.py": ALL,
    "selfgen/params.py": ALL,
    "selfgen/records.py": ALL,
    "selfgen/manifest.py": tuple(name for name in ALL if name not in ("subset", "decide", "report")),
    "selfgen/schemas/*": tuple(name for name in ALL if name not in ("subset", "decide", "report")),
    # The service, and the embedded one.
    "selfgen/service.py": SAMPLES,
    "selfgen/sdk.py": SAMPLES,
    "selfgen/journal.py": SAMPLES,
    "selfgen/rendering.py": SAMPLES,
    "selfgen/embedded/cli.py": (),
    "selfgen/embedded/*": SAMPLES,
    # The curated set.
    "selfgen/curated/*": ("curated",),
    # Tasks: proposed, filtered, audited.
    "selfgen/tasks/__init__.py": ("generate", "filter", "audit", "gate", "report"),
    "selfgen/tasks/propose.py": ("generate", "filter", "report"),
    "selfgen/tasks/examples.py": ("generate", "filter", "report"),
    "selfgen/tasks/sampling.py": ("generate", "filter"),
    "selfgen/tasks/accept.py": ("filter",),
    "selfgen/tasks/croissant.py": ("filter",),
    "selfgen/tasks/audit.py": ("audit",),
    "selfgen/tasks/repair.py": ("audit",),
    "selfgen/tasks/quarantine.py": ("filter", "audit"),
    "selfgen/tasks/reasons.py": ("filter", "audit", "report"),
    "selfgen/numeric.py": ("curated", "audit"),
    "selfgen/tasks/measure.py": (),
    "selfgen/tasks/plants.py": (),
    **{
        f"selfgen/tasks/{name}.py": ("filter", "report")
        for name in (
            "codetext",
            "filters",
            "label",
            "parse",
            "prelude",
            "problemtext",
            "relay",
            "sandbox",
            "scan",
            "yields",
        )
    },
    # Overlaps are looked for by the filter, by the audit and by the gate.
    **{
        f"selfgen/tasks/{name}.py": ("filter", "audit", "gate", "report")
        for name in ("folding", "normalise", "numberwords", "overlap")
    },
    # Training.
    "selfgen/training/__init__.py": ("preflight", "subset", "pilot", "train", "report"),
    "selfgen/training/subset.py": ("subset",),
    "selfgen/training/preflight.py": ("preflight",),
    "selfgen/training/fixed_batch.json": ("preflight",),
    "selfgen/training/pilot.py": ("pilot",),
    "selfgen/training/results.py": ("preflight", "pilot", "train", "report"),
    **{
        f"selfgen/training/{name}.py": ("preflight", "pilot", "train")
        for name in ("arms", "checkpoints", "coin", "dataset", "loop", "sent", "starts")
    },
    # Evaluation: the grader is the reward, too.
    "selfgen/evaluation/__init__.py": SAMPLES,
    "selfgen/evaluation/eval.py": ("pilot", "eval_base", "eval"),
    "selfgen/evaluation/prompting.py": ("generate", "filter", "audit", "subset", "pilot", "eval_base", "eval"),
    "selfgen/evaluation/grading.py": SAMPLES[1:],
    "selfgen/evaluation/worker.py": SAMPLES[1:],
    "selfgen/evaluation/noise.py": ("decide",),
    "selfgen/evaluation/agreement.py": ("decide",),
    # Gate and decision.
    "selfgen/gates.py": ("gate",),
    "selfgen/budget.py": ("gate", "report"),
    "selfgen/closure.py": ("decide",),
    **{
        f"selfgen/decision/{name}.py": ("gate", "report")
        for name in ("__init__", "hoeffding", "outcomes", "pairing", "power", "verdict")
    },
    **{f"selfgen/decision/{name}.py": ("decide",) for name in ("bounded", "paired", "prereg", "run", "sensitivity")},
    "selfgen/decision/*": (),
    # The report.
    "selfgen/report/cli.py": (),
    "selfgen/report/compare.py": (),
    "selfgen/report/*": ("report",),
    "selfgen/spec.py": ("report",),
    "selfgen/registered.json": ("report",),
    # What only a user runs or reads.
    **{
        f"selfgen/{name}.py": ()
        for name in (
            "capabilities",
            "cli",
            "commands",
            "progress",
            "registered",
            "sharing",
            "show",
            "signing",
            "status",
        )
    },
    "selfgen/export/*": (),
    "selfgen/verify/*": (),
    # The stages themselves.
    "stages/code.py": (),
    "stages/eval.py": ("eval_base", "eval"),
    **{f"stages/{name}.py": (name,) for name in ALL if name not in ("eval_base", "eval")},
}


def expectation(name: str, table: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The first entry that fits: exact ones come before patterns of the same folder."""
    for pattern, direct in table.items():
        if fnmatchcase(name, pattern):
            return direct
    raise AssertionError(f"{name}: say in tests/test_invalidation.py which stages it re-runs")


@pytest.fixture(scope="module")
def graph() -> list[invalidation.Stage]:
    return stages()


@pytest.fixture(scope="module")
def scales(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Composed params by scale."""
    found = {}
    for path in sorted((root / "conf/scale").glob("*.yaml")):
        out = tmp_path_factory.mktemp("params") / f"{path.stem}.yaml"
        done = CliRunner().invoke(compose, [f"scale={path.stem}", "--conf", str(root / "conf"), "--out", str(out)])
        assert done.exit_code == 0, done.output
        found[path.stem] = yaml.safe_load(out.read_text())
    return found


def test_every_param_of_every_scale_re_runs_what_the_logic_says(
    graph: list[invalidation.Stage], scales: dict[str, dict]
) -> None:
    keys = {key for values in scales.values() for key in leaves(values)}
    assert len(keys) > 80
    wrong = {}
    for key in sorted(keys):
        wanted = {*expectation(key, PARAMS), "report"}
        if not any(fnmatchcase(key, pattern) for pattern in NO_PLAN):
            wanted.add("decide")
        if (found := set(families(by_param(key, graph)))) != wanted:
            wrong[key] = (sorted(found - wanted), sorted(wanted - found))
    assert not wrong, "{key: (runs needlessly, is missing)}"


def test_an_arms_params_touch_no_other_arms_stages(graph: list[invalidation.Stage]) -> None:
    found = {name for name in by_param("arms.rl_gsm8k.reward", graph) if "@" in name}
    assert found == {"subset@rl_gsm8k", "pilot@rl_gsm8k", "train@rl_gsm8k"}


def test_a_new_arm_with_a_seed_of_its_own_trains_nobody_else(graph: list[invalidation.Stage]) -> None:
    """Arms read their own start checkpoint, not the list of all."""
    for stage in graph:
        if stage.name.split("@")[0] in ("pilot", "train"):
            assert not {"data/preflight/start.json", "data/preflight/starts", "data/preflight"} & set(stage.deps)
    more = stages(arms=("rl_gsm8k", "rl_selfgen", "rl_other"))
    assert [stage for stage in more if not stage.name.endswith("@rl_other")] == graph


def test_every_scale_has_every_key_that_a_stage_names(graph: list[invalidation.Stage], scales: dict[str, dict]) -> None:
    """DVC gives up on a stage that names a missing key, after it has run."""
    for scale, values in scales.items():
        for stage in graph:
            for key in stage.params:
                here = values
                for part in key.split("."):
                    assert part in here, f"scale {scale}: stage {stage.name} depends on {key}"
                    here = here[part]


def test_every_source_file_re_runs_what_the_logic_says(root: Path, graph: list[invalidation.Stage]) -> None:
    wrong = {}
    for file in source_files(root):
        wanted = set(expectation(file, MODULES))
        if wanted - {"report"}:
            wanted.add("decide")
        if (found := set(families(by_file(file, graph)))) != wanted:
            wrong[file] = (sorted(found - wanted), sorted(wanted - found))
    assert not wrong, "{file: (runs needlessly, is missing)}"


def test_the_embedded_servers_code_re_runs_nothing_of_a_remote_service(
    root: Path, graph: list[invalidation.Stage]
) -> None:
    for file in source_files(root):
        if file.startswith("selfgen/embedded/"):
            assert not by_file(file, graph, server=False), file


def test_every_expectation_is_about_something(root: Path, scales: dict[str, dict]) -> None:
    keys = {key for values in scales.values() for key in leaves(values)}
    for names, table in ((keys, PARAMS), (set(source_files(root)), MODULES)):
        for pattern in table:
            assert any(fnmatchcase(name, pattern) for name in names), f"{pattern} fits nothing; remove it"


def test_the_documented_table_is_this_one(root: Path) -> None:
    documented = (root / "docs/invalidation.md").read_text(encoding="utf-8")
    assert documented == invalidation.table(PARAMS, stages()), (
        "run `python -m tests.support.invalidation > docs/invalidation.md`"
    )
