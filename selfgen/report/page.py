"""The page itself: sections gathered, templates rendered. No script, no network: its own policy forbids both."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from selfgen.report import charts, claim, conduct, formats, making, outcome
from selfgen.report.run import Run
from selfgen.training.results import mean, mixed_share

SECTIONS = (
    ("criteria", "Criteria", "always"),
    ("accuracy", "Accuracy", "always"),
    ("flips", "Item flips", "flips"),
    ("sensitivity", "Sensitivity", "sensitivity"),
    ("power", "Power", "thresholds"),
    ("training", "Training", "curves"),
    ("funnel", "Funnel", "funnel"),
    ("tasks", "Tasks", "sample"),
    ("audit", "Audit", "audit"),
    ("gate", "Gate", "gate"),
    ("preflight", "Preflight", "preflight"),
    ("cost", "Cost", "feasibility"),
    ("provenance", "Provenance", "always"),
    ("commands", "Commands", "always"),
)


def render(run: Run) -> str:
    """The whole page as HTML. Equal artifacts give equal bytes."""
    found = sections(run)
    found["style"] = style()
    found["contents"] = [(a, title) for a, title, need in SECTIONS if need == "always" or found.get(need)]
    return environment().get_template("report.html.j2").render(found)


def markdown(run: Run) -> str:
    """The outcome in Markdown, for a pull request comment or a terminal."""
    text = environment(html=False).get_template("report.md.j2").render(summary(run))
    return re.sub(r"\n{3,}", "\n\n", text)


def style() -> str:
    """The page's style sheet."""
    return resources.files("selfgen.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def summary(run: Run) -> dict[str, Any]:
    """What both the page and its Markdown twin show, by name."""
    return {
        "params": run.params,
        "claim": claim.make(run),
        "decision": run.decision,
        "registration": run.decision["registration"]["statement"] if run.decision else None,
        "criteria": outcome.criteria(run),
        "accuracies": outcome.accuracies(run),
        "funnel": making.funnel(run),
        "audit": run.audit,
        "gate": run.gate,
        "feasibility": run.feasibility,
        "cost": conduct.cost(run),
    }


def sections(run: Run) -> dict[str, Any]:
    """Everything the page shows, by name."""
    import yaml

    found = summary(run)
    criteria, accuracies, funnel = found["criteria"], found["accuracies"], found["funnel"]
    palette = outcome.colours(run)
    return found | {
        "items": run.n_items,
        "transfer": outcome.transfer_sizes(run),
        "criteria_chart": outcome.criteria_chart(criteria) if criteria else None,
        "accuracy_chart": charts.accuracies(accuracies) if accuracies else None,
        "flips": outcome.flips(run),
        "sensitivity": run.decision["sensitivity"] if run.decision else None,
        "noise_floor": run.decision["noise_floor"] if run.decision else None,
        "graders": run.graders,
        "thresholds": outcome.thresholds(run),
        "power": outcome.power(run),
        "curves": conduct.curve_charts(run),
        "legend": [(arm, charts.legend_line(palette[arm])) for arm in run.trainings],
        "trained": trained(run),
        "funnel_charts": making.funnel_charts(funnel) if funnel else [],
        "overlaps": making.overlaps(run),
        "histograms": making.histograms(run),
        "variety": making.variety(run),
        "repeated": making.repeated(run),
        "effort": making.effort(run),
        "sample": making.sample(run.tasks),
        "audit_facts": making.audit_facts(run.audit) if run.audit else [],
        "audit_rows": making.audit_rows(run),
        "past_audits": run.past_audits,
        "preflight": run.preflight,
        "origin": origin(run),
        "sources": conduct.sources(run),
        "packages": sorted(conduct.packages(run).items()),
        "params_text": yaml.safe_dump(run.params.model_dump(mode="json"), sort_keys=False, width=100),
        "commands": conduct.commands(run),
    }


def trained(run: Run) -> list[dict[str, Any]]:
    """One row a trained arm, counted from its rollouts."""
    return [
        {
            "arm": arm,
            "steps": training.checkpoint["steps"],
            "rollouts": len(training.rollouts),
            "problems": len({row.problem_id for row in training.rollouts}),
            "reward": mean([row.reward for row in training.rollouts]),
            "mixed": mixed_share(training.rollouts),
            "digest": training.checkpoint["digest"],
        }
        for arm, training in run.trainings.items()
    ]


def origin(run: Run) -> list[tuple[str, str]]:
    """Commits, services, seeds and the identity of the item list."""
    facts = [("scale", run.params.scale), ("seed of the arms", str(run.params.seed))]
    facts += [("commit", commit) for commit in conduct.commits(run)]
    facts += [("service", text) for text in conduct.services(run)]
    facts += [("base model", run.params.model.name), ("auditor", run.params.auditor.name)]
    if run.decision:
        facts.append(("test items", f"{run.decision['n']:,}, sha256 of their ids {run.decision['items_sha256']}"))
    return facts


@cache
def environment(html: bool = True) -> Any:
    """The templates' environment: a name that does not exist is an error, and on a page everything is escaped."""
    import jinja2
    import markupsafe

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("selfgen.report"),
        autoescape=html,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    for name in ("percent", "points", "count", "number", "p_value", "duration", "short", "foreign", "cell", "plural"):
        made.filters[name] = getattr(formats, name)
    made.filters["allowed"] = conduct.allowed
    made.filters["breakable"] = lambda name: markupsafe.Markup(
        re.sub("[_/]", r"\g<0><wbr>", str(markupsafe.escape(name)))
    )
    return made
