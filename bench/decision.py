"""How long the decision takes: 1,000,000 items x 10 arms under 5 s, `selfgen power` under 5 s; exit 1 above.

Both run on one core. Wall and processor seconds are shown; the limit is held against the smaller, so that a busy
machine does not fail what it merely delays.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from selfgen.decision import decide
from selfgen.params import load

LIMIT = 5.0
ITEMS, ARMS = 1_000_000, 10


def decision_seconds() -> tuple[float, float]:
    """Pair and decide ITEMS x ARMS rows of which one arm comes in another order."""
    ids = [f"item-{i:07d}" for i in range(ITEMS)]
    rng = np.random.default_rng(0)
    rows = {f"arm{k}": list(zip(ids, (rng.random(ITEMS) < 0.6).tolist(), strict=True)) for k in range(ARMS)}
    rows["arm3"].reverse()
    criteria = [
        SimpleNamespace(id=f"c{k}", metric="accuracy", bounds=[0, 1], margin=-0.03, weights={f"arm{k}": 1, "arm0": -1})
        for k in range(1, ARMS)
    ]
    rule = SimpleNamespace(method="paired_hoeffding", alpha=0.05, criteria=criteria)
    wall, cpu = time.perf_counter(), time.process_time()
    decide(rows, rule, items=ids)
    return time.perf_counter() - wall, time.process_time() - cpu


def power_seconds(params: Path) -> tuple[float, float]:
    """The whole command, start of Python included."""
    command = [sys.executable, "-m", "selfgen.cli", "power", "--n", "1319", "--params", str(params)]
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print both figures as JSON."""
    params = Path(__file__).resolve().parent.parent / "params.yaml"
    load(params)
    figures = {"decide_1e6_items_10_arms": decision_seconds(), "power_command": power_seconds(params)}
    shown = {name: {"wall_s": round(wall, 2), "cpu_s": round(cpu, 2)} for name, (wall, cpu) in figures.items()}
    print(json.dumps(shown | {"limit_s": LIMIT}))
    if max(min(pair) for pair in figures.values()) > LIMIT:
        sys.exit(f"slower than {LIMIT:g} s")


if __name__ == "__main__":
    main()
