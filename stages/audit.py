"""Stage `audit`: a larger model solves a sample of the tasks again, blind."""

from pathlib import Path

import click

from selfgen import manifest
from selfgen.cli import run
from selfgen.params import load
from selfgen.progress import Progress
from selfgen.records import CuratedRow, Rejection, Task, read_jsonl, write_json, write_jsonl
from selfgen.rendering import renderer
from selfgen.service import open_service
from selfgen.tasks import audit, quarantine, repair
from selfgen.tasks.overlap import OverlapIndex

DATA, OUT = Path("data"), Path("data/audit")


@click.command()
def main() -> None:
    """Write data/audit/rows.jsonl, audit.json and passed.json. A failed audit is a result; the pilot refuses it."""
    params = load()
    tasks = list(read_jsonl(DATA / "filter/tasks.jsonl", Task))
    index = OverlapIndex.build(read_jsonl(DATA / "curated/test.jsonl", CuratedRow))
    with (
        open_service(params, [params.auditor.name]) as service,
        Progress("audit", params.audit.sample, service.cost(params.auditor.name)) as bar,
    ):
        sampler = service.sampler(params.auditor.name, params.auditor.tokenizer)
        rows, verdict = audit.run(
            tasks,
            solve=audit.service_solver(
                sampler, renderer(params.auditor.renderer, params.auditor.tokenizer), params.audit, bar
            ),
            params=params.audit,
            solver=params.auditor.name,
            few_shot=params.train.few_shot,
            past=repair.past_rounds("review"),
            adjudications=audit.read_adjudications("review/adjudications.jsonl"),
            quarantined=quarantine.quarantined_ids("review"),
            overlap=index.exact,
            counts=audit.count(tasks, read_jsonl(DATA / "filter/rejected.jsonl", Rejection)),
        )
        write_jsonl(OUT / "rows.jsonl", rows)
        write_json(OUT / "audit.json", verdict)
        write_json(OUT / "passed.json", {"passed": verdict["passed"]})
        write_json("metrics/audit.json", {k: v for k, v in verdict.items() if isinstance(v, (int, float))})
        manifest.write(
            OUT / "manifest.json",
            stage="audit",
            inputs=[DATA / "filter/tasks.jsonl", DATA / "curated/test.jsonl", "review/adjudications.jsonl"],
            outputs=[OUT / "rows.jsonl", OUT / "audit.json"],
            params=params.section("audit", "auditor", "train.few_shot"),
            service=service.describe(),
            tokens=service.usage.tokens(),
        )
    click.echo(f"audit: {'passed' if verdict['passed'] else 'FAILED: ' + '; '.join(verdict['failures'])}")


if __name__ == "__main__":
    run(main)
