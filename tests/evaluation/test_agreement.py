"""The second grader: independent, listed item by item, never silently late."""

from selfgen.evaluation.agreement import Item, agreement, of_rows
from selfgen.evaluation.grading import grade
from selfgen.records import EvalRow


def items(*pairs):
    out = []
    for number, (text, answer) in enumerate(pairs):
        found = grade(text, answer)
        out.append(Item(f"i{number}", text, answer, found.extracted, found.correct))
    return out


def test_every_disagreement_is_listed_with_both_readings():
    report = agreement(
        items(
            ("so \\boxed{42}", "42"),
            ("so \\boxed{41}", "42"),
            ("so \\boxed{84/2}", "42"),  # equal as a number; the stock grader wants an integer
            ("The answer is 42.", "42"),  # no box: no answer for the stock extractor
        )
    )
    assert (report["n"], report["both_correct"], report["both_wrong"]) == (4, 1, 1)
    assert (report["only_second"], report["only_stock"], report["without_box"], report["timeouts"]) == (2, 0, 1, 0)
    assert report["agree"] == 0.5
    assert [d["item_id"] for d in report["disagreements"]] == ["i2", "i3"]
    assert report["disagreements"][0]["extracted"] == "84/2"
    assert report["disagreements"][0]["second_extracted"]


def test_a_completion_that_hangs_math_verify_is_reported_as_late_and_the_rest_is_graded():
    hanging = "\\boxed{" + "9^{9^{9^{9^{9}}}}" + "}"
    report = agreement(items((hanging, "42"), ("\\boxed{42}", "42")), timeout=3.0)
    assert report["both_correct"] == 1
    late = report["disagreements"]
    assert report["timeouts"] + report["both_wrong"] == 1
    assert all(d["second"] is None for d in late)


def test_no_items_is_no_agreement_rather_than_full_agreement():
    assert agreement([])["agree"] is None


def test_evaluation_rows_are_graded_again_from_their_completions_and_not_from_their_verdicts():
    forged = EvalRow("t-0", "a", "42", "so \\boxed{41}", 5, "stop", "41", True)
    sound = EvalRow("t-1", "a", "42", "so \\boxed{42}", 5, "stop", "42", True)
    report = of_rows([forged, sound])
    assert (report["both_correct"], report["only_stock"]) == (1, 1)
    assert [d["item_id"] for d in report["disagreements"]] == ["t-0"]
