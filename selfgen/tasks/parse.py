"""Takes a model's raw answer apart into a problem and a program, or says why that cannot be done.

The answer is whatever a small model wrote: talk around it, any Markdown or none, a restated task, an answer line,
example calls. Parsing is pure and deterministic, keeps the model's own words, and prefers to reject: a candidate
whose problem and code may not belong together is `ambiguous`, one that was cut is `truncated`.
"""

from __future__ import annotations

from dataclasses import dataclass

from selfgen.tasks import codetext, problemtext


@dataclass(frozen=True)
class Parsed:
    """`problem` is the text a solver sees; `code` defines `solve()` and holds no example calls."""

    problem: str
    code: str


@dataclass(frozen=True)
class ParseFailure:
    """`reason` is "truncated", "no_code", "ambiguous" or "no_problem"; `detail` one line of evidence."""

    reason: str
    detail: str


def parse_candidate(text: str, finished: bool) -> Parsed | ParseFailure:
    """Parse one answer.

    Args:
        text: the whole completion.
        finished: False when max_tokens cut it.
    """
    lines = problemtext.tidy(text).split("\n")
    found = codetext.regions(lines)
    with_solve = [r for r in found if codetext.solve_functions(r.source)]
    if not with_solve:
        if not finished:
            return ParseFailure("truncated", "cut before a function named solve")
        return ParseFailure("no_code", "no top-level `def solve`" if found else "no code at all")
    functions = {f for r in with_solve for f in codetext.solve_functions(r.source)}
    main = with_solve[0]
    if len(functions) > 1:
        if not finished and not with_solve[-1].closed:
            return ParseFailure("truncated", "cut in a second solve()")
        return ParseFailure("ambiguous", f"{len(functions)} different solve() functions")
    source = codetext.plain_operators(main.source)
    code, tail_dropped = codetext.without_demonstration(source)
    if not finished and not main.closed and not tail_dropped:
        return ParseFailure("truncated", "cut inside the code")
    others = [codetext.plain_operators(r.source) for r in found if r is not main and r not in with_solve]
    code = "\n\n".join([*codetext.helpers(code, others), code]).strip("\n") + "\n"

    before = problemtext.merge(problemtext.bodies(_prose(lines, found, 0, main.start)))
    after = [
        b
        for b in problemtext.bodies(_prose(lines, found, main.end, len(lines)))
        if b.kind not in ("", problemtext.HEADING)
    ]
    problems = [p for p in before if len(p.split()) >= 3]
    if not problems:
        return ParseFailure("no_problem", "no problem text before the code")
    if len(problems) > 1:
        return ParseFailure("ambiguous", f"{len(problems)} different problems before the code")
    more = problemtext.merge([problemtext.Body("", (problems[0],)), *after])
    if len(more) > 1:
        return ParseFailure("ambiguous", "another problem after the code")
    return Parsed(problems[0], code)


def _prose(lines: list[str], found: list[codetext.Region], start: int, end: int) -> list[str]:
    """Lines in [start, end) that are not code, without fences; a blank line stands where code was."""
    out: list[str] = []
    index = start
    for region in [*(r for r in found if start <= r.start < end), None]:
        stop = end if region is None else region.start
        out += [_before_fence(line) for line in lines[index:stop]]
        if stop < len(lines):
            out += [_before_fence(lines[stop]) if codetext.is_fence(lines[stop]) else "", ""]
        index = stop if region is None else region.end
    return out


def _before_fence(line: str) -> str:
    """The line, or what stands in front of a fence on it."""
    return line.split("```")[0].split("~~~")[0] if codetext.is_fence(line) else line
