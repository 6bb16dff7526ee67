"""The committed evidence of real runs: it verifies, and the pages beside it state its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selfgen.export.evidence import opened
from selfgen.records import EvalRow, read_json, read_jsonl
from selfgen.verify import claims

RESULTS = sorted((Path(__file__).parent.parent / "results").glob("*/evidence.tar.xz"))


def counts(archive: Path, source: str | None) -> str:
    """What the page says of verification, with the curated rows from `source`."""
    with opened(archive, source) as root:
        found = claims.verify(root)
    assert [(claim.name, claim.detail) for claim in claims.failed(found)] == []
    n = claims.to_json(found)["counts"]
    return f"{n['verified']} claims verified, 0 failed, {n['not checkable here']} not checkable here"


@pytest.mark.slow
@pytest.mark.parametrize("archive", RESULTS, ids=lambda path: path.parent.name)
def test_committed_evidence_verifies_with_the_original_rows_put_back(archive: Path, gsm8k_dir: Path) -> None:
    assert counts(archive, str(gsm8k_dir)) in (archive.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("archive", RESULTS, ids=lambda path: path.parent.name)
def test_committed_evidence_verifies_and_its_page_states_its_numbers(archive: Path) -> None:
    page = (archive.parent / "README.md").read_text(encoding="utf-8")
    assert counts(archive, None) in page
    with opened(archive) as root:
        assert not (root / "data/curated/test.jsonl").exists()
        for arm in read_json(root / "data/decide/decision.json")["accuracies"]:
            rows = list(read_jsonl(root / f"data/eval/{arm}/rows.jsonl", EvalRow))
            right, tokens = sum(row.correct for row in rows), sum(row.n_tokens for row in rows) / len(rows)
            cells = [
                cell.strip() for cell in next(x for x in page.splitlines() if x.startswith(f"| {arm} |")).split("|")
            ]
            assert cells[2:4] == [f"{right:.0f}", f"{100 * right / len(rows):.1f} %"]
            assert cells[5] == f"{tokens:.0f}"
        for row in read_json(root / "data/decide/decision.json")["criteria"]:
            interval = f"{100 * row['lower']:.1f} to {100 * row['upper']:.1f}"
            assert f"| {100 * row['estimate']:.1f} points | {interval} |" in page


def test_there_is_committed_evidence_and_it_is_small() -> None:
    assert RESULTS
    for archive in RESULTS:
        files = list(archive.parent.iterdir())
        assert {"README.md", "dvc.lock", "evidence.tar.xz", "index.html"} <= {file.name for file in files}
        assert sum(file.stat().st_size for file in files) < 5_000_000
        with opened(archive) as root:
            assert (root / "dvc.lock").read_bytes() == (archive.parent / "dvc.lock").read_bytes()
            assert json.loads((root / "left_out.json").read_text())
