"""Why a candidate may not be trained on: the closed list that parsing, execution and filters share.

Every rejected candidate carries exactly one of these, so the counts by reason add up to the candidates. A reason
is a plain string in the artifacts; `REASONS` says what each one means, and its order is the order of the checks.
"""

from __future__ import annotations

from typing import Final

# Statuses of one sandboxed run (design section 4); all but "ok" become the reason `execution_<status>`.
STATUSES: Final = (
    "ok",
    "syntax",
    "error",
    "timeout",
    "memory",
    "unsupported",
    "bad_type",
    "out_of_range",
    "crash",
)

PARSE_REASONS: Final = {
    "truncated": "cut at max_tokens before the problem and solve() were complete",
    "no_code": "no top-level function named solve",
    "ambiguous": "two different problems or two different solve() functions in one answer",
    "no_problem": "no problem text before the code",
    "copied_example": "the problem is one of the worked examples that the prompt shows",
}

EXECUTION_REASONS: Final = {
    "execution_syntax": "the code is not Python",
    "execution_error": "solve() raised, or is not callable without arguments",
    "execution_timeout": "no answer within the time limit",
    "execution_memory": "over the memory limit",
    "execution_unsupported": "needs something the sandbox does not offer: files, clock, input, a library, giant source",
    "execution_bad_type": "the return value is not an int (a float, bool, str, None and containers are not)",
    "execution_out_of_range": "the return value is an int beyond any grade-school answer",
    "execution_crash": "the sandbox worker died",
}

FILTER_REASONS: Final = {
    "answer_in_text": "the problem text contains the label, in some spelling",
    "too_short": "fewer words than filter.min_words",
    "too_long": "more words than filter.max_words",
    "overlap_exact": "normalised exact match with a test question",
    "overlap_ngram": "n-gram containment of a test question",
    "overlap_minhash": "near-duplicate of a test question",
    "overlap_masked": "a test question with other numbers",
    "duplicate": "a duplicate of an earlier accepted task",
    "quarantined": "set aside by an audit; see the quarantine file",
    "pass_rate_low": "the base model solves it too rarely",
    "pass_rate_high": "the base model solves it too often",
}

REASONS: Final = {**PARSE_REASONS, **EXECUTION_REASONS, **FILTER_REASONS}


def execution_reason(status: str) -> str:
    """The reason of a sandbox status other than "ok".

    Raises:
        ValueError: `status` is "ok" or unknown.
    """
    reason = f"execution_{status}"
    if reason not in EXECUTION_REASONS:
        raise ValueError(f"{status!r} is not a failed sandbox status")
    return reason
