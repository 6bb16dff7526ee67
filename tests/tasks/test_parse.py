"""Parsing: hand-judged answers of real small models, and one constructed answer for each thing they are known to do."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfgen.tasks.parse import Parsed, ParseFailure, parse_candidate
from selfgen.tasks.reasons import PARSE_REASONS

JUDGED = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "judged_generations.jsonl").read_text(encoding="utf-8").splitlines()
]

PROBLEM = "Ann has 3 bags with 4 apples each. She eats 2 apples. How many apples are left?"
CODE = "def solve():\n    return 3 * 4 - 2\n"
BLOCK = f"```python\n{CODE}```"


def parsed(text: str, finished: bool = True) -> Parsed:
    result = parse_candidate(text, finished)
    assert isinstance(result, Parsed), result
    return result


def reason(text: str, finished: bool = True) -> str:
    result = parse_candidate(text, finished)
    assert isinstance(result, ParseFailure), result
    assert result.reason in PARSE_REASONS
    assert "\n" not in result.detail
    return result.reason


@pytest.mark.parametrize("case", JUDGED, ids=[case["id"] for case in JUDGED])
def test_agrees_with_the_judgement_of_a_real_answer(case: dict) -> None:
    result = parse_candidate(case["text"], case["finished"])
    if isinstance(result, ParseFailure):
        assert (result.reason, None, None) == (case["verdict"], case["problem"], case["code"])
    else:
        assert ("accept", result.problem, result.code) == (case["verdict"], case["problem"], case["code"])


def test_judged_answers_cover_models_wordings_and_every_reason() -> None:
    assert len(JUDGED) >= 100
    assert len({case["id"] for case in JUDGED}) == len(JUDGED)
    assert len({case["model"] for case in JUDGED}) == 4
    assert set("ABCDEP") <= {case["variant"] for case in JUDGED}
    assert min(Counter(case["verdict"] for case in JUDGED).values()) >= 15
    assert {case["verdict"] for case in JUDGED} == {"accept", *PARSE_REASONS} - {"copied_example"}


@pytest.mark.parametrize(
    "before",
    [
        f"Problem: {PROBLEM}\nSolution:\n",
        f"Problem:\n{PROBLEM}\n\n",
        f"**Problem:** {PROBLEM}\n\n**Solution:**\n",
        f"**Problem**: {PROBLEM}\n",
        f"**Problem**\n\n{PROBLEM}\n\n**Code**\n\n",
        f"**Question:**\n{PROBLEM}\n",
        f"### Question\n{PROBLEM}\n### Answer\n",
        f"## Grade-School Math Word Problem\n\n{PROBLEM}\n\n## Python Function\n\n",
        f"# Problem 1\n{PROBLEM}\n",
        f"Word Problem: {PROBLEM}\nPython:\n",
        f"1. **Problem:** {PROBLEM}\n\n2. **Solution:**\n",
        f"- Question: {PROBLEM}\n",
        f"Q: {PROBLEM}\nA:\n",
        f"**Q1.** {PROBLEM}\n",
        f"<think>\nProblem: a draft?\n```python\ndef solve():\n    return 0\n```\n</think>\n\nProblem: {PROBLEM}\n",
        f"> {PROBLEM}\n\n",
        f'"{PROBLEM}"\n\n',
        f"“{PROBLEM}”\n\n",
        f"*{PROBLEM}*\n\n",
        f"{PROBLEM}\n",
        f"{PROBLEM} Solution:\n",
        f"Sure! Here's a grade-school math word problem:\n\n{PROBLEM}\n\nHere is the Python function:\n\n",
        f"Certainly! Here is a word problem along with a Python function to solve it:\n\n### Problem\n{PROBLEM}\n",
        f"Problem: The Apple Bags\n\n{PROBLEM}\n",
        f"Topic: fruit\nGrade: 3\n\n{PROBLEM}\n",
        "Problem: Ann has 3 bags with 4 apples each. She eats 2\napples. How many apples are left?\n",
        "Problem: Ann has 3 bags with 4 apples each. She eats 2 apples.\nQuestion: How many apples are left?\n",
    ],
)
def test_finds_the_problem_under_every_heading_and_in_every_wrapping(before: str) -> None:
    assert parsed(before + BLOCK) == Parsed(PROBLEM, CODE)


@pytest.mark.parametrize(
    "between",
    [
        "To solve this, multiply 3 by 4 and subtract 2, which gives 10.\n\n",
        "Explanation: 3 * 4 = 12, and 12 - 2 = 10.\n\n",
        "Here's the Python function that returns the answer 10:\n\n",
        "We can use a Python function to compute 12 - 2 = 10.\n\n",
        "Let's solve it. There are 12 apples at first.\n\n",
        "She has 12 apples before she eats, so 10 are left.\n\n",
        "**Step 1:** 3 * 4 = 12\n**Step 2:** 12 - 2 = 10\n\n",
        "1. 3 * 4 = 12\n2. 12 - 2 = 10\n\n",
    ],
)
def test_prose_between_problem_and_code_is_not_part_of_the_problem(between: str) -> None:
    assert parsed(f"Problem: {PROBLEM}\n\n{between}{BLOCK}") == Parsed(PROBLEM, CODE)
    assert parsed(f"{PROBLEM}\n\n{between}{BLOCK}") == Parsed(PROBLEM, CODE)


@pytest.mark.parametrize(
    "line",
    ["Answer: 10", "**Answer:** 10 apples", "The answer is 10.", "(Answer: 10)", "Answer\n10", "Solution: 10", "A: 10"],
)
def test_an_answer_line_after_the_problem_is_stripped(line: str) -> None:
    assert parsed(f"Problem: {PROBLEM}\n{line}\n\n{BLOCK}").problem == PROBLEM
    assert parsed(f"{PROBLEM}\n\n{line}\n\n{BLOCK}").problem == PROBLEM


def test_an_answer_inside_the_problem_stays_for_the_leak_filter_to_see() -> None:
    leaking = PROBLEM + " The answer is 10."
    assert parsed(f"Problem: {leaking}\n{BLOCK}").problem == leaking
    leaking = "Ann has 10 apples left after eating 2. How many apples are left?"
    assert parsed(f"Problem: {leaking}\n{BLOCK}").problem == leaking


def test_wrapped_lines_are_joined_and_list_items_are_kept_apart() -> None:
    text = f"Problem: A pen costs\n$2.\n\n- one red pen\n- two blue\n  pens\n\nHow much is it?\n{BLOCK}"
    assert parsed(text).problem == "A pen costs $2.\n- one red pen\n- two blue pens\nHow much is it?"


def test_markdown_escapes_and_emphasis_are_undone_in_the_problem() -> None:
    text = f"Problem: A pen costs \\$5 and has **20\\%** off. What do __5__ pens cost?\n{BLOCK}"
    assert parsed(text).problem == "A pen costs $5 and has 20% off. What do 5 pens cost?"


def test_text_after_the_code_is_ignored() -> None:
    text = f"Problem: {PROBLEM}\n{BLOCK}\n\nThis function multiplies and subtracts.\n\nAnswer: 10\n"
    assert parsed(text) == Parsed(PROBLEM, CODE)


@pytest.mark.parametrize(
    "tail",
    [
        "\nprint(solve())\n",
        "\nprint(f'The answer is {solve()}')  # 10\n",
        "\nif __name__ == '__main__':\n    print(solve())\n",
        '\nif __name__ == "__main__":\n    answer = solve()\n    print(answer)\nelse:\n    pass\n',
        "\nanswer = solve()\nprint(answer)\n",
        "\nresult = solve()\nmessage = f'{result}'\nprint(message)\n",
        "\nassert solve() == 10\n",
        "\nsolve()\n",
        "\n# Example usage:\nprint(solve())  # Output: 10\n",
        "\nn = int(input('n: '))\nprint(n)\n",
        "\nfor expected in [10]:\n    assert solve() == expected\n",
        "\ntry:\n    print(solve())\nexcept ValueError:\n    print('no')\nfinally:\n    print('done')\n",
    ],
)
def test_what_only_demonstrates_solve_is_cut(tail: str) -> None:
    assert parsed(f"Problem: {PROBLEM}\n```python\n{CODE}{tail}```").code == CODE


def test_a_main_function_is_kept_but_not_called() -> None:
    code = parsed(f"Problem: {PROBLEM}\n```python\n{CODE}\ndef main():\n    print(solve())\n\nmain()\n```").code
    assert code == CODE + "\ndef main():\n    print(solve())\n"


@pytest.mark.parametrize(
    "code",
    [
        "import math\n\nBAGS = 3\n\n\ndef per_bag() -> int:\n    return 4\n\n\ndef solve() -> int:\n    return BAGS * per_bag() - 2\n",
        "def solve():\n    return bags() * 4 - EATEN\n\n\ndef bags():\n    return 3\n\nEATEN = 2\n",
        "total: int = 0\nfor bag in range(3):\n    total += 4\n\ndef solve():\n    return total - 2\n",
        "from functools import lru_cache\n\n@lru_cache(None)\ndef apples(bags: int) -> int:\n    return 4 * bags\n\ndef solve():\n    return apples(3) - 2\n",
        "BAGS = [\n4,\n4,\n4,\n]\n\ndef solve():\n    return sum(BAGS) - 2\n",
        "class Bag:\n    size = 4\n\ndef solve():\n    return 3 * Bag.size - 2\n",
        "async def solve():\n    return 10\n",
        'def solve():\n    """Counts.\n\nA line at the margin.\n"""\n    return 10\n',
    ],
)
def test_helpers_imports_constants_and_type_hints_are_kept(code: str) -> None:
    assert parsed(f"Problem: {PROBLEM}\n```python\n{code}```").code == code


def test_a_needed_helper_in_another_block_is_joined_and_an_unneeded_one_is_not() -> None:
    helper = "def apples(bags):\n    return 4 * bags\n"
    text = (
        f"Problem: {PROBLEM}\n\nFirst a helper:\n```python\n{helper}```\nNot this:\n```python\nx = 7\n```\n"
        "Then:\n```python\ndef solve():\n    return apples(3) - 2\n```\nIt prints\n```\n10\n```\n"
    )
    assert parsed(text) == Parsed(PROBLEM, f"{helper}\ndef solve():\n    return apples(3) - 2\n")


@pytest.mark.parametrize("fence", ["```", "```python", "```py", "```Python", "~~~python", "   ```python"])
def test_any_fence_will_do(fence: str) -> None:
    close = fence.strip()[:3]
    assert parsed(f"Problem: {PROBLEM}\n{fence}\n{CODE}{close}\n") == Parsed(PROBLEM, CODE)


def test_code_without_any_fence() -> None:
    assert parsed(f"Problem: {PROBLEM}\n\nSolution:\n{CODE}") == Parsed(PROBLEM, CODE)
    code = "import math\nBAGS = 3\ndef apples():\n    return 4\n\ndef solve():\n    return BAGS * apples() - 2\n"
    text = f"Problem: {PROBLEM}\n\nSolution:\n{code}\nprint(solve())\n\nThis prints 10.\n"
    assert parsed(text) == Parsed(PROBLEM, code)


def test_a_fence_that_is_only_closed_or_only_opened() -> None:
    assert parsed(f"Problem: {PROBLEM}\n\n{CODE}```\nSo the answer is 10.") == Parsed(PROBLEM, CODE)
    assert parsed(f"Problem: {PROBLEM}\n\n```python\n{CODE}") == Parsed(PROBLEM, CODE)
    assert parsed(f"Problem: {PROBLEM}\n\n```python\n{CODE}\nSo the answer is 10, as it's 12 - 2.") == Parsed(
        PROBLEM, CODE
    )
    assert parsed(f"Problem: {PROBLEM} ```python\n{CODE.rstrip()}```") == Parsed(PROBLEM, CODE)


def test_the_whole_answer_in_a_fence() -> None:
    assert parsed(f"```\nProblem: {PROBLEM}\nSolution:\n```python\n{CODE}```\n```\n") == Parsed(PROBLEM, CODE)


def test_an_indented_block_is_dedented() -> None:
    indented = "".join(f"    {line}\n" for line in CODE.splitlines())
    assert parsed(f"1. Problem: {PROBLEM}\n2. Solution:\n    ```python\n{indented}    ```\n") == Parsed(PROBLEM, CODE)


@pytest.mark.parametrize("end", ["\r\n", "\r", "\u2028"])
def test_line_ends_of_every_kind(end: str) -> None:
    text = f"Problem: {PROBLEM}\n\n{BLOCK}\n".replace("\n", end)
    assert parsed(text) == Parsed(PROBLEM, CODE)


def test_unicode_quotes_signs_and_spaces_in_code_become_ascii_but_strings_and_the_problem_keep_theirs() -> None:
    code = (
        "def solve():\n    name = “Ann’s”\n    other = 'x – y'  # – stays\n    return 3 × 4 − 2 if name ≠ ‘x’ else 0\n"
    )
    problem = "Ann’s bags hold 3 × 4 apples – she eats 2. How many are left?"
    result = parsed(f"Problem: {problem}\n```python\n{code}```")
    assert result.problem == problem
    assert result.code == (
        "def solve():\n    name = \"Ann’s\"\n    other = 'x – y'  # – stays\n    return 3 * 4 - 2 if name != 'x' else 0\n"
    )


def test_invisible_characters_and_wide_spaces_vanish() -> None:
    text = f"\ufeffProblem:\u00a0{PROBLEM}\u200b\n```python\ndef solve():\n\u00a0\u00a0\u00a0\u00a0return 10\n```"
    assert parsed(text) == Parsed(PROBLEM, "def solve():\n    return 10\n")


@pytest.mark.parametrize(
    "text",
    [
        "Problem: Ann has 3 bags wi",
        f"Problem: {PROBLEM}\nSolution:\n```python\n",
        f"Problem: {PROBLEM}\n```python\ndef solve():\n    apples = 3",
        f"Problem: {PROBLEM}\n```python\ndef solve():\n    apples = 12\n    return apples",
        f"Problem: {PROBLEM}\n\ndef solve():\n    return 3 *",
        f"Problem: {PROBLEM}\n```python\n{CODE}\ndef helper():\n    x = 1",
        f"Problem: {PROBLEM}\n```python\n{CODE}```\nAnother way:\n```python\ndef solve():\n    return 1",
    ],
)
def test_an_answer_cut_before_it_was_complete_is_truncated(text: str) -> None:
    assert reason(text, finished=False) == "truncated"


@pytest.mark.parametrize("rest", ["\nThis function multi", "\n\nprint(solve())\n```\nThe ans", "\n```\n"])
def test_an_answer_cut_after_it_was_complete_is_kept(rest: str) -> None:
    text = (
        f"Problem: {PROBLEM}\n{BLOCK}{rest}" if "print" not in rest else f"Problem: {PROBLEM}\n```python\n{CODE}{rest}"
    )
    assert parsed(text, finished=False) == Parsed(PROBLEM, CODE)


def test_a_cut_in_the_demonstration_loses_nothing() -> None:
    text = f"Problem: {PROBLEM}\n```python\n{CODE}\nprint(solve())"
    assert parsed(text, finished=False) == Parsed(PROBLEM, CODE)


OTHER = "Bob reads 5 pages a day for 6 days. How many pages does he read?"


@pytest.mark.parametrize(
    "text",
    [
        f"Problem: {PROBLEM}\n{BLOCK}\n\nProblem: {OTHER}\n```python\ndef solve():\n    return 5 * 6\n```",
        f"Problem: {PROBLEM}\n{BLOCK}\n\nProblem: {OTHER}\n",
        f"Problem 1: {PROBLEM}\nProblem 2: {OTHER}\n{BLOCK}",
        f"**Question 1:** {PROBLEM}\n\n**Question 2:** {OTHER}\n\n{BLOCK}",
        f"Problem: {PROBLEM}\n{BLOCK}\nOr:\n```python\ndef solve():\n    return 11\n```",
        f"Problem: {PROBLEM}\n```python\n{CODE}\ndef solve():\n    return 11\n```",
    ],
)
def test_two_problems_or_two_solutions_are_ambiguous(text: str) -> None:
    assert reason(text) == "ambiguous"


def test_a_restated_problem_and_a_repeated_function_are_not_ambiguous() -> None:
    text = f"Problem: {PROBLEM}\n{BLOCK}\n\nProblem: {PROBLEM}\nFull code:\n{BLOCK}\n"
    assert parsed(text) == Parsed(PROBLEM, CODE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\n",
        PROBLEM,
        f"Problem: {PROBLEM}\n```python\nprint(3 * 4 - 2)\n```",
        f"Problem: {PROBLEM}\n```python\ndef solve_apples():\n    return 10\n```",
        f"Problem: {PROBLEM}\n```python\nclass Task:\n    def solve(self):\n        return 10\n```",
        f"Problem: {PROBLEM}\n```python\nsolve = lambda: 10\n```",
        f"Problem: {PROBLEM}\nCall solve() to get 10.",
    ],
)
def test_without_a_function_named_solve_there_is_no_code(text: str) -> None:
    assert reason(text) == "no_code"


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        f"Here is the code:\n{BLOCK}",
        f"60\n{BLOCK}",
        f"Solution: use solve()\n{BLOCK}",
        f"{BLOCK}\n\nProblem: {PROBLEM}",
        f"Sure!\n\n{BLOCK}",
        f"Write one grade-school math word problem with a single integer answer.\n\n{BLOCK}",
    ],
)
def test_without_a_problem_before_the_code_there_is_no_problem(text: str) -> None:
    assert reason(text) == "no_problem"


@pytest.mark.parametrize(
    "problem",
    [
        "A puzzle has 500 pieces and Tom places 120 a day. How many days until it is done?",
        "Let's say a bus holds 40 people and 7 get off. How many are on the bus?",
        "I am thinking of a number. Twice the number plus 5 is 21. What is the number?",
        "Each function of the play sells 30 tickets. How many tickets do 4 functions sell?",
        "Read the facts and answer the question.\n- A pen costs $2.\n- A book costs $9.\nHow much do 3 pens and a book cost?",
        "Find the sum of the first 10 even numbers.",
        "Steps lead up to a tower: 12 flights of 15 steps. How many steps are there?",
        "Here is a story: a hen lays 5 eggs a week. How many eggs in 6 weeks?",
        "A solution contains 30 grams of salt in 5 liters. How many grams are in 2 liters?",
        "A program at the zoo costs $5.\nFour children go.\nHow much do they pay?",
        "Working from 9:00 to 17:00, Tom packs 6 boxes an hour.\nHow many boxes does he pack?",
        "Import taxes are 5 dollars a box.\nHow much tax is due on 12 boxes?",
        "To solve a jigsaw takes Ann 3 hours.\nHow long do 4 jigsaws take?",
        "You can use each of 6 coins twice.\nHow many times can you pay?",
        "Lunch choices differ.\nOptions: soup for $4 or salad for $6.\nHow much do 3 soups and a salad cost?",
        "Note: a box holds 5 pens.\nHow many pens are in 7 boxes?",
        "The code of a lock has 3 digits. How many digits do 8 locks have?",
        "A: 5 red pens. B: 7 blue pens. How many pens are there?",
    ],
)
def test_stories_that_sound_like_talk_about_problems_survive(problem: str) -> None:
    for text in (f"Problem: {problem}\n\n{BLOCK}", f"{problem}\n\n{BLOCK}"):
        assert parsed(text).problem.split() == problem.split()


FORMS = [
    "{problem}\n\n{block}",
    "Problem: {problem}\nSolution:\n{block}",
    "**Problem:**\n{problem}\n\n**Solution:**\n{block}",
    "Sure, here's a word problem:\n\n{problem}\n\nHere's the Python function:\n{block}",
]


@pytest.fixture(scope="module")
def questions(gsm8k_dir: Path) -> list[tuple[str, str]]:
    """Question and worked solution of every GSM8K test problem: real stories, written by people."""
    rows = map(json.loads, (gsm8k_dir / "test.jsonl").read_text(encoding="utf-8").splitlines())
    return [(row["question"], re.sub(r"<<.*?>>", "", row["answer"]).replace("####", "The answer is")) for row in rows]


@pytest.mark.parametrize("form", FORMS)
def test_no_real_story_is_cut_or_mistaken_for_talk(questions: list[tuple[str, str]], form: str) -> None:
    for question, _ in questions:
        assert parsed(form.format(problem=question, block=BLOCK)).problem.split() == question.split()


@pytest.mark.parametrize("form", ["{problem}\n\n{solution}\n\n{block}", "Problem: {problem}\n{solution}\n{block}"])
def test_unlabelled_explanations_are_cut_from_real_stories(questions: list[tuple[str, str]], form: str) -> None:
    results = [
        parsed(form.format(problem=q, solution=s, block=BLOCK)).problem.split() == q.split() for q, s in questions
    ]
    assert sum(results) >= 0.995 * len(results)


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet=st.sampled_from(list("Problem:?\n`~# \t\rdefsolv()=\"'[{“’−0123*-")), max_size=300), st.booleans()
)
def test_any_text_gives_a_result_with_a_known_reason(text: str, finished: bool) -> None:
    result = parse_candidate(text, finished)
    if isinstance(result, ParseFailure):
        assert result.reason in PARSE_REASONS
    else:
        assert "def solve" in result.code.replace("  ", " ").replace("\t", " ")


@pytest.mark.parametrize(
    "unit", ["(", "[", "`", "```\n", "Problem: ", "a:", "*", "_ ", "def solve():\n", "x = (\n", "'", "? "]
)
def test_hostile_repetition_takes_linear_time(unit: str) -> None:
    text = f"Problem: {PROBLEM}\n" + unit * (40_000 // len(unit)) + "\n" + BLOCK
    parse_candidate(text, True)  # pytest's own timeout is the assertion
