"""Measure the shipped models: `python tools/evaluate_models.py --policy DIR --auditor DIR --out measures.json`.

Greedy accuracy in and outside the templates, with and without the one-shot prefix; the share of mixed groups of 8 at
temperature 1; proposals: how many parse, run, are distinct, and whether the auditor agrees with their labels.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import sys
import time
from collections import Counter
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from selfgen.curated import standin  # noqa: E402
from tools import corpus  # noqa: E402

BOX = re.compile(r"\\boxed\{([^{}]*)\}")
FENCE = re.compile(r"^(.*?)\n\n```python\n(def solve\(\):\n.*?)\n```$", re.S)
OPS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
       ast.Mod: operator.mod, ast.Gt: operator.gt, ast.Eq: operator.eq}  # fmt: skip


class Sampler:
    """Batched sampling with the Hugging Face generator."""

    def __init__(self, folder: Path, batch: int = 500) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(self.device).eval()
        self.encoder = corpus.Encoder(folder / "tokenizer.json", ROOT / "tools" / "frames.json")
        self.batch = batch

    def __call__(
        self, prompts: list[list[int]], greedy: bool, max_tokens: int, seed: int = 0, temperature: float = 1.0
    ) -> list[str]:
        """One completion a prompt; an unfinished one keeps no end mark, which the text shows as a trailing newline."""
        torch = self.torch
        torch.manual_seed(seed)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        texts = [""] * len(prompts)
        for at in range(0, len(order), self.batch):
            rows = order[at : at + self.batch]
            width = max(len(prompts[i]) for i in rows)
            ids = torch.tensor([[0] * (width - len(prompts[i])) + prompts[i] for i in rows], device=self.device)
            mask = torch.tensor(
                [[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in rows], device=self.device
            )
            how: dict = {"do_sample": False}
            if not greedy:
                how = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
            with torch.no_grad():
                got = self.model.generate(
                    input_ids=ids, attention_mask=mask, max_new_tokens=max_tokens, eos_token_id=2, pad_token_id=0, **how
                )
            for i, row in zip(rows, got[:, width:].tolist(), strict=True):
                end = row.index(self.encoder.end) if self.encoder.end in row else None
                text = self.encoder.tokenizer.decode(row[:end])
                texts[i] = text if end is not None else text + "\n"
        return texts

    def solve(self, questions: list[str], prefixed: bool, greedy: bool = True, seed: int = 0) -> list[str]:
        return self(self.encoder.prompts("solve_prefixed" if prefixed else "solve", questions), greedy, 150, seed)

    def propose(self, count: int, seed: int, temperature: float) -> list[str]:
        return self(self.encoder.prompts("propose", [""] * count), False, 260, seed, temperature)


def answer_of(text: str) -> int | None:
    """The last box as an integer, or None."""
    boxes = BOX.findall(text)
    return int(boxes[-1]) if boxes and boxes[-1].isdigit() else None


def run_program(code: str) -> int | str:
    """Interpret a straight-line solve() of integer arithmetic; a string says why it has no value."""
    try:
        body = ast.parse(code).body[0].body  # type: ignore[attr-defined]
        names: dict[str, int] = {}

        def value(node: ast.expr):
            if isinstance(node, ast.Constant):
                return node.value
            if isinstance(node, ast.Name):
                return names[node.id]
            if isinstance(node, ast.BinOp):
                return OPS[type(node.op)](value(node.left), value(node.right))
            if isinstance(node, ast.Compare):
                return OPS[type(node.ops[0])](value(node.left), value(node.comparators[0]))
            raise TypeError(type(node).__name__)

        for line in body:
            if isinstance(line, ast.Assign):
                names[line.targets[0].id] = value(line.value)  # type: ignore[attr-defined]
            elif isinstance(line, ast.Assert):
                if not value(line.test):
                    return "assert"
            elif isinstance(line, ast.Return):
                return value(line.value)  # type: ignore[arg-type]
    except (SyntaxError, KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError, IndexError) as error:
        return type(error).__name__
    return "no return"


def accuracy(sampler: Sampler, rows, prefixed: bool) -> float:
    texts = sampler.solve([r.question for r in rows], prefixed)
    return sum(answer_of(t) == int(r.answer) for t, r in zip(texts, rows, strict=True)) / len(rows)


def groups(sampler: Sampler, rows, prefixed: bool) -> dict[str, float]:
    """Groups of 8 at temperature 1: mean accuracy, share mixed, share in the band of 1 to 6 correct."""
    texts = sampler.solve([r.question for r in rows for _ in range(8)], prefixed, greedy=False)
    right = [sum(answer_of(t) == int(r.answer) for t in texts[8 * i : 8 * i + 8]) for i, r in enumerate(rows)]
    n = len(rows)
    return {
        "accuracy": sum(right) / 8 / n,
        "mixed": sum(0 < x < 8 for x in right) / n,
        "band_1_6": sum(1 <= x <= 6 for x in right) / n,
        "boxed": sum("\\boxed" in t for t in texts) / len(texts),
    }


def proposals(
    policy: Sampler, auditor: Sampler, count: int, curated_questions: set[str], temperature: float
) -> tuple[dict[str, object], list[str]]:
    """Parse, run, filter by 1 to 6 of 8 and audit `count` proposals; also returns their texts."""
    texts = policy.propose(count, 1, temperature)
    parsed = [m.groups() for t in texts if (m := FENCE.match(t))]
    ran = [(q, run_program(c)) for q, c in parsed]
    failures = Counter(v for _, v in ran if isinstance(v, str))
    good = [(q, v) for q, v in ran if isinstance(v, int) and v > 0]
    no_leak = [(q, v) for q, v in good if str(v) not in re.findall(r"\d+", q)]
    usable = [(q, v) for q, v in no_leak if 20 <= len(q.split()) <= 120]
    solved = policy.solve([q for q, _ in usable for _ in range(8)], True, greedy=False)
    right = [sum(answer_of(t) == v for t in solved[8 * i : 8 * i + 8]) for i, (_, v) in enumerate(usable)]
    accepted = [row for row, n in zip(usable, right, strict=True) if 1 <= n <= 6]

    def audit(rows, prefixed: bool = False) -> tuple[float, list]:
        said = auditor.solve([q for q, _ in rows], prefixed)
        wrong = [(q, v, t) for (q, v), t in zip(rows, said, strict=True) if answer_of(t) != v]
        return 1 - len(wrong) / max(1, len(rows)), wrong

    agree_usable, _ = audit(usable)
    agree_accepted, wrong = audit(accepted)
    agree_prefixed, _ = audit(accepted, True)
    skeleton = {re.sub(r"\d+", "#", q) for q, _ in parsed}
    measured = {
        "parse": len(parsed) / count,
        "run": len(good) / count,
        "failures": dict(failures),
        "answer_not_in_text": len(no_leak) / count,
        "usable": len(usable) / count,
        "accepted": len(accepted) / count,
        "n_accepted": len(accepted),
        "in_band": len(accepted) / max(1, len(usable)),
        "auditor_agrees_usable": agree_usable,
        "auditor_agrees_accepted": agree_accepted,
        "auditor_prefixed_agrees_accepted": agree_prefixed,
        "distinct": len({q for q, _ in parsed}) / max(1, len(parsed)),
        "distinct_without_numbers": len(skeleton) / max(1, len(parsed)),
        "same_as_curated": sum(q in curated_questions for q, _ in parsed),
        "disagreements": wrong[:20],
    }
    return measured, texts


@click.command()
@click.option("--policy", "policy_dir", type=click.Path(path_type=Path), required=True)
@click.option("--auditor", "auditor_dir", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--items", default=1000, show_default=True)
@click.option("--batch", default=1000, show_default=True)
@click.option("--proposals", "count", default=2000, show_default=True)
def main(policy_dir: Path, auditor_dir: Path, out: Path, items: int, batch: int, count: int) -> None:
    """Measure both models and write the figures as JSON."""
    began = time.time()
    rows = standin.build(items, items, items, seed=0)
    policy, auditor = Sampler(policy_dir, batch), Sampler(auditor_dir, batch)
    result: dict[str, object] = {}
    for name, sampler in (("policy", policy), ("auditor", auditor)):
        for prefixed in (True, False):
            key = f"{name}_{'prefixed' if prefixed else 'plain'}"
            result[f"{key}_test"] = accuracy(sampler, rows["test"], prefixed)
            result[f"{key}_outside"] = accuracy(sampler, rows["outside"], prefixed)
    for prefixed in (True, False):
        result[f"policy_groups_{'prefixed' if prefixed else 'plain'}"] = groups(policy, rows["test"][:300], prefixed)
    curated = {r.question for split in rows.values() for r in split}
    for temperature in (1.0, 0.8):
        measured, texts = proposals(policy, auditor, count, curated, temperature)
        result[f"proposals_T{temperature}"] = measured
        out.with_name(f"proposals_T{temperature}.json").write_text(json.dumps(texts) + "\n")
    result["seconds"] = round(time.time() - began, 1)
    out.write_text(json.dumps(result, indent=1) + "\n")
    click.echo(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
