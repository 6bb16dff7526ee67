"""The progress line says how far a stage is, at what speed, for what money, and how long it will take."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from selfgen import progress
from selfgen.params import Price, load
from selfgen.progress import Progress
from selfgen.service import Service, Usage


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_line_holds_done_needed_yield_speed_cost_and_time_left(clock, capsys) -> None:
    with Progress("filter", 640, cost=lambda: "0.42 USD") as bar:
        clock[0] += 5
        bar.update(10, tokens=700, note="yield 40 % of 25")
        assert capsys.readouterr().err == ""  # sober: no line before its time
        clock[0] += 15
        bar.update(22, tokens=1300)
        line = capsys.readouterr().err
    assert line == "filter: 32/640, yield 40 % of 25, 100 tokens/s, 0.42 USD so far, about 380 s left\n"
    assert capsys.readouterr().err == "filter: 32/640, yield 40 % of 25, 100 tokens/s, 0.42 USD so far, 20.0 s\n"


def test_on_a_terminal_the_line_is_written_over(clock, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress("eval base", 4) as bar:
        for _ in range(4):
            clock[0] += 1
            bar.update()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("\r\x1b[Keval base: 1/4, about 3 s left\r\x1b[K")
    assert "USD" not in shown


def service(root: Path, usage: Usage) -> Service:
    """Prices and usage are all that `cost` looks at."""
    made = Service.__new__(Service)
    price = Price(prefill=1.0, sample=2.0, train=4.0)
    made.budget = load(root / "params.yaml").budget.model_copy(update={"prices": {"m": price}, "currency": "EUR"})
    made.usage = usage
    return made


def test_cost_so_far_is_tokens_asked_for_at_the_models_price(root: Path) -> None:
    usage = Usage(prompt_tokens=1_000_000)
    cost = service(root, usage).cost("m")
    assert cost is not None
    assert cost() == "1.00 EUR"
    usage.sampled_tokens, usage.trained_tokens = 250_000, 500_000
    assert cost() == "3.50 EUR"


def test_without_a_price_there_is_no_cost(root: Path) -> None:
    assert service(root, Usage()).cost("another") is None
