"""The registered plan's two command lines, on the pipeline's own code; what they do not say comes from params.yaml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from selfgen.errors import GateError, ParamsError
from selfgen.params import Params, load
from selfgen.progress import Progress
from selfgen.records import Candidate, CuratedRow, Rejection, Task, read_jsonl, write_json, write_jsonl


def _band(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)-(\d+)", value)
    if found is None:
        raise click.BadParameter("must be two counts with a hyphen, such as 1-6")
    return int(found[1]), int(found[2])


def _with(params: Params, base_url: str | None, changes: dict[str, dict[str, Any]]) -> Params:
    """Params with some keys replaced, validated again; `base_url` makes the service a remote one."""
    from selfgen.params import parse

    values = params.model_dump(mode="json")
    if base_url is not None:
        os.environ["TINKER_BASE_URL"] = base_url
        values["service"]["kind"] = "remote"
    for path, given in changes.items():
        inner = values
        for part in path.split("."):
            inner = inner[part]
        inner.update({key: value for key, value in given.items() if value is not None})
    return parse(values, "params.yaml with the options given")


def _questions(reference: str | None, params: Params) -> Iterator[CuratedRow]:
    """The evaluation questions: `SOURCE:CONFIG/SPLIT` on the Hub, a folder, or the curated set of params."""
    from selfgen.curated import gsm8k
    from selfgen.curated.load import load as load_curated

    if reference is None:
        yield from load_curated(params.curated)["test"]
        return
    source, _, rest = reference.partition(":")
    config, _, split = rest.partition("/")
    if split not in ("", "train", "test"):
        raise ParamsError(f"--overlap-ref {reference}: unknown split {split!r}; use SOURCE:CONFIG/test")
    if params.curated.source and Path(params.curated.source).is_dir() and not Path(source).is_dir():
        source = params.curated.source  # the local copy of the set that params name
    yield from gsm8k.load(source, config or None, params.curated.revision)[split or "test"]


@click.command()
@click.option("--base-url", "--base_url", help="Tinker service; default: what params.yaml names.")
@click.option("--generator", help="Model that writes and solves the tasks. Default: model.name.")
@click.option("--n-accept", "--n_accept", type=int, help="Tasks wanted. Default: filter.n_accept.")
@click.option(
    "--filter-samples", "--filter_samples", type=int, help="Attempts at each task. Default: filter.solve.n_samples."
)
@click.option("--keep-band", "--keep_band", callback=_band, help="Solved attempts to keep, e.g. 1-6.")
@click.option("--overlap-ref", "--overlap_ref", help="Evaluation questions, e.g. openai/gsm8k:main/test, or a folder.")
@click.option("--max-candidates", type=int, help="Give up after so many. Default: 10 times generate.n_candidates.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Where tasks.jsonl goes.")
def generate(
    base_url: str | None,
    generator: str | None,
    n_accept: int | None,
    filter_samples: int | None,
    keep_band: tuple[int, int] | None,
    overlap_ref: str | None,
    max_candidates: int | None,
    out: Path,
) -> None:
    """Generate, label and filter until enough tasks are accepted (step 1 of the registered plan).

    Writes OUT, and beside it rejected.jsonl, overlap.json and counts.json. Samples go through the request journal:
    the same command after an interruption goes on where it stopped.

    \b
    Examples:
      selfgen generate --n-accept 640 --keep-band 1-6 --out tasks/tasks.jsonl
    """
    from selfgen.rendering import renderer
    from selfgen.service import open_service
    from selfgen.tasks.accept import accept
    from selfgen.tasks.sampling import attempts, propose

    low, high = keep_band or (None, None)
    named = {"name": generator, "tokenizer": generator}
    params = load()
    same = generator in (None, params.model.name)
    solve = {"n_samples": filter_samples, "min_correct": low, "max_correct": high}
    changes: dict[str, dict[str, Any]] = {"filter": {"n_accept": n_accept}, "filter.solve": solve}
    if not same:
        changes["model"] = named
    if n_accept is not None:
        changes["audit"] = {"sample": min(n_accept, params.audit.sample)}
    params = _with(params, base_url, changes)
    limit = max_candidates or 10 * params.generate.n_candidates
    questions = list(_questions(overlap_ref, params))
    with (
        open_service(params, [params.model.name]) as service,
        Progress("generate", params.filter.n_accept, service.cost(params.model.name)) as bar,
    ):
        sampler = service.sampler(params.model.name, params.model.tokenizer)
        rendered = renderer(params.model.renderer, params.model.tokenizer)

        def candidates() -> Iterator[Candidate]:
            for candidate in propose(sampler, rendered, params.generate, count=limit):
                bar.update(0, tokens=candidate.n_tokens)
                yield candidate

        counts = accept(
            candidates(),
            questions,
            out.parent,
            rules=params.filter,
            solve=attempts(sampler, rendered, params.filter.solve, params.train.few_shot),
            progress=bar,
        )
        write_json(
            out.parent / "counts.json", {**counts, "generator": params.model.name, "usage": service.usage.tokens()}
        )
    if out.name != "tasks.jsonl":
        (out.parent / "tasks.jsonl").replace(out)
    click.echo(f"{out}: {counts['accepted']} tasks of {counts['candidates_judged']} candidates")


@click.command()
@click.option("--base-url", "--base_url", help="Tinker service; default: what params.yaml names.")
@click.option("--solver", help="Model that solves the tasks again. Default: auditor.name.")
@click.option("--sample", type=int, help="Tasks to audit. Default: audit.sample.")
@click.option("--compare", type=click.Choice(["numeric_exact"]), help="How answers are compared.")
@click.option(
    "--max-label-errors", "--max_label_errors", type=int, help="Label errors allowed. Default: audit.max_label_errors."
)
@click.option("--overlap-ref", "--overlap_ref", help="Evaluation questions, e.g. openai/gsm8k:main/test, or a folder.")
@click.option(
    "--tasks", type=click.Path(dir_okay=False, path_type=Path), help="Tasks to audit. Default: tasks.jsonl beside OUT."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Where the verdict goes.")
def audit(
    base_url: str | None,
    solver: str | None,
    sample: int | None,
    compare: str | None,
    max_label_errors: int | None,
    overlap_ref: str | None,
    tasks: Path | None,
    out: Path,
) -> None:
    """Audit tasks blind (step 1 of the registered plan); exit status 1 when the audit fails.

    Writes OUT and, beside it, audit_rows.jsonl with every worked solution.

    \b
    Examples:
      selfgen audit --sample 100 --max-label-errors 0 --out tasks/audit.json
    """
    from selfgen.rendering import renderer
    from selfgen.service import open_service
    from selfgen.tasks import audit as auditing
    from selfgen.tasks.overlap import OverlapIndex

    params = load()
    rows = list(read_jsonl(tasks or out.parent / "tasks.jsonl", Task))
    changes: dict[str, dict[str, Any]] = {
        "audit": {"sample": sample, "compare": compare, "max_label_errors": max_label_errors},
        "filter": {"n_accept": max(len(rows), sample or params.audit.sample)},
    }
    if solver not in (None, params.auditor.name):
        changes["auditor"] = {"name": solver, "tokenizer": solver}
    params = _with(params, base_url, changes)
    index = OverlapIndex.build(_questions(overlap_ref, params))
    rejected = out.parent / "rejected.jsonl"
    with open_service(params, [params.auditor.name]) as service:
        sampler = service.sampler(params.auditor.name, params.auditor.tokenizer)
        audited, verdict = auditing.run(
            rows,
            solve=auditing.service_solver(
                sampler, renderer(params.auditor.renderer, params.auditor.tokenizer), params.audit
            ),
            params=params.audit,
            solver=params.auditor.name,
            few_shot=params.train.few_shot,
            overlap=index.exact,
            counts=auditing.count(rows, read_jsonl(rejected, Rejection)) if rejected.exists() else None,
        )
    write_jsonl(out.parent / "audit_rows.jsonl", audited)
    write_json(out, verdict)
    if not verdict["passed"]:
        raise GateError(f"{out}: the audit failed: {'; '.join(verdict['failures'])}; do not train on these tasks")
    click.echo(f"{out}: passed, {verdict['label_errors']} label errors in {verdict['sample']} tasks")
