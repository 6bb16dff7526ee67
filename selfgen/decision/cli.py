"""Commands around the decision: `power`, `prereg`, `seeds` and `spec`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from selfgen.errors import DataError, ParamsError, VerifyError

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PARAMS = click.option(
    "--params", "params_file", type=click.Path(dir_okay=False, path_type=Path), default=Path("params.yaml"),
    show_default=True, help="Composed params.",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.option(
    "--n", "n_items", type=click.IntRange(min=1), help="Evaluation items; default those of the curated test set."
)
@click.option(
    "--difference", "differences", type=float, multiple=True, help="True difference of accuracies, 0.03 for 3 points."
)
@click.option(
    "--discordance", "discordances", type=float, multiple=True, help="Share of items on which the two arms disagree."
)
@click.option(
    "--accuracy", "accuracies", multiple=True, metavar="ARM=SHARE", help="Assumed accuracy of a reference arm."
)
@click.option(
    "--rows",
    "row_files",
    multiple=True,
    metavar="ARM=FILE",
    help="Take accuracies and discordance from evaluated rows (a pilot's).",
)
@click.option(
    "--draws", type=click.IntRange(min=1), default=20_000, show_default=True, help="Simulated experiments per line."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulation.")
@_PARAMS
@_JSON
def power(
    n_items: int | None,
    differences: tuple[float, ...],
    discordances: tuple[float, ...],
    accuracies: tuple[str, ...],
    row_files: tuple[str, ...],
    draws: int,
    seed: int,
    params_file: Path,
    as_json: bool,
) -> None:
    """What the registered rule can validate at this number of items, and how many it would need.

    Example: selfgen power --n 1319 --difference 0 --difference 0.05 --discordance 0.15
    """
    from selfgen.decision import power as library
    from selfgen.params import load

    rule = load(params_file).decision
    n = n_items or len(_items())
    assumed = {arm: _share(value, arm) for arm, value in (_pair(a) for a in accuracies)}
    known = set(rule.compared)
    if unknown := sorted(assumed.keys() - known):
        raise ParamsError(
            f"--accuracy {unknown[0]}: no criterion weighs this arm; they weigh {', '.join(sorted(known))}"
        )
    if row_files:
        from selfgen.decision.outcomes import observed
        from selfgen.decision.pairing import pair, read_arms

        rows = pair(read_arms(dict(_pair(f) for f in row_files)))
        half = 0.5 / rows.n  # an arm that got all or nothing right in a small pilot is not known to always do so
        seen = {arm: min(max(float(rows.mean(arm)), half), 1 - half) for arm in known & rows.scores.keys()}
        assumed = seen | assumed
        treated, reference = library.treated_arms(rule)[0], library.reference_arm(rule)
        if not discordances and {treated, reference} <= rows.scores.keys():
            discordances = (observed(rows.scores, list(rows.scores)).discordance(treated, reference),)
    account = library.power(
        rule,
        n,
        accuracies=assumed,
        differences=differences or library.DIFFERENCES,
        discordances=discordances or library.DISCORDANCES,
        draws=draws,
        seed=seed,
    )
    click.echo(json.dumps(account, indent=2, sort_keys=True) if as_json else "\n".join(library.lines(account)))


@click.command()
@click.option("--seed", "seeds", type=int, multiple=True, help="Planned seeds; default the seed in params.")
@click.option("--items", "items_file", type=_FILE, help="Curated test rows; default data/curated/test.jsonl.")
@click.option("--replace", is_flag=True, help="Register anew over another plan.")
@click.option(
    "--check", "checking", is_flag=True, help="Compare the registered plan with what stands now; exit 1 if it differs."
)
@_PARAMS
def prereg(seeds: tuple[int, ...], items_file: Path | None, replace: bool, checking: bool, params_file: Path) -> None:
    """Write the plan (rule, items, margins, filters, seeds, hashes of params and code) to prereg/<scale>.json.

    Commit it before evaluating: the decision states whether it stood in the commit that the rows were made from.

    \b
    Examples:
      selfgen prereg && git add prereg && git commit -m "Register the plan"
      selfgen prereg --check
    """
    from selfgen.decision import prereg as library
    from selfgen.params import load

    root, params, items = Path("."), load(params_file), _items(items_file)
    code = library.current_code(root, embedded=params.service.kind == "embedded")
    content = library.plan(params, items, seeds or [params.seed], code)
    path = library.plan_path(params.scale)
    if checking:
        registered = library.read_plan(path)
        differences = library.changes(registered, content)
        for change in differences:
            click.echo(f"{change['what']}: registered {change['registered']!r}, now {change['now']!r}")
        where = library.committed(path, root)
        click.echo(f"{path}: " + (f"committed {where['date']} in {where['commit'][:12]}" if where else "not committed"))
        click.echo(library.registration(params, items, ["base", *params.arms], Path("data"), root)["statement"])
        if differences or where is None:
            raise VerifyError(
                f"{path}: {len(differences)} entries differ from what stands now; go by the plan, or register anew with --replace"
                if differences
                else f"{path}: not committed as it stands; run `git add {path} && git commit`"
            )
        return
    path, state = library.register(content, root, replace=replace)
    for sentence in content["power"]:
        click.echo(sentence)
    click.echo(
        f"{path}: plan {content['sha256'][:12]} {state}; commit it before evaluating: git add {path} && git commit"
    )


@click.command()
@click.option(
    "--check", "file", type=_FILE, help="A plan's file; default the registered plan that ships with the package."
)
@click.option("--all", "show_all", is_flag=True, help="Show every field, not only those that differ.")
@_PARAMS
@_JSON
def spec(file: Path | None, show_all: bool, params_file: Path, as_json: bool) -> None:
    """Compare a registered plan (spec.json) with the composed params, field by field; exit 1 where they differ.

    Example: selfgen compose scale=spec --out spec.yaml && selfgen spec --params spec.yaml --check spec.json
    """
    from dataclasses import asdict

    from selfgen import spec as library
    from selfgen.params import load
    from selfgen.records import read_json

    params = load(params_file)
    plan = read_json(file) if file else library.registered()
    fields = library.check(plan, params)
    if as_json:
        click.echo(json.dumps([asdict(f) for f in fields], indent=2, ensure_ascii=False))
    else:
        for f in fields:
            if show_all or f.status in ("different", "unknown"):
                click.echo(f"{f.status:9}  {f.name}: plan {_short(f.registered)}, params {_short(f.composed)}")
        counts = {status: sum(f.status == status for f in fields) for status in library.STATUSES}
        click.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
    if not library.agrees(fields):
        raise VerifyError(
            f"{params_file} is not the plan of {file or 'selfgen/registered.json'}; compose it with `selfgen compose scale=spec`"
        )


def _items(path: Path | None = None) -> list[str]:
    from selfgen.records import CuratedRow, read_jsonl

    path = path or Path("data/curated/test.jsonl")
    if not path.is_file():
        raise DataError(f"{path}: no such file; run `dvc repro curated` first, or give --n where the command has it")
    return [row.id for row in read_jsonl(path, CuratedRow)]


def _pair(text: str) -> tuple[str, str]:
    arm, equals, value = text.partition("=")
    if not (arm and equals and value):
        raise click.UsageError(f"{text!r} must be ARM=VALUE")
    return arm, value


def _share(text: str, arm: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParamsError(f"--accuracy {arm}={text}: must be a number between 0 and 1") from None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else text[:67] + "..."


@click.command()
@click.argument("revisions", nargs=-1)
@click.option(
    "--ledger",
    "ledger_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the seeds to this hash-chained file.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the result as JSON here.")
@_JSON
def seeds(revisions: tuple[str, ...], ledger_file: Path | None, out: Path | None, as_json: bool) -> None:
    """What several seeds say: differences by seed, variance between seeds and items, the interval over seeds.

    REVISIONS are DVC experiments, branches, tags, commits or `workspace`; default all experiments on this commit.

    Example: dvc exp run --queue -S 'seed=0,1,2,3,4' && dvc queue start -j 2 && selfgen seeds --ledger seeds.jsonl
    """
    from selfgen.decision import ledger
    from selfgen.decision import seeds as library
    from selfgen.decision.collect import collect
    from selfgen.params import parse
    from selfgen.records import write_json

    runs, notes = library.distinct(collect(Path("."), revisions))
    rule = parse(dict(runs[0].params), runs[0].source).decision
    result = library.analyse(runs, rule) | {"notes": notes}
    if ledger_file:
        plan = library.ledger_plan(runs, rule)
        entries, new = ledger.append(ledger_file, plan, [library.ledger_seed(run, rule) for run in runs])
        recorded = [entry.content for entry in entries[1:]]
        result["ledger"] = {
            "file": str(ledger_file),
            "head": entries[-1].hash,
            "new": new,
            "seeds": [content["seed"] for content in recorded],
            "evidence": {
                c.id: library.criterion_evidence(
                    c, [r["estimates"][c.id] for r in recorded], rule.alpha, len(rule.criteria)
                )
                for c in rule.criteria
            },
        }
    if out:
        write_json(out, result)
    click.echo(json.dumps(result, indent=2, sort_keys=True) if as_json else "\n".join(library.lines(result)))
