"""Simultaneous Hoeffding bounds for weighted means of paired item scores, compared exactly.

A criterion gives each item i the value x_i = sum over arms a of w_a * s_(a,i), where every score s lies in
[lo, hi]. So x_i lies in an interval of width R = (hi - lo) * sum |w_a|, whatever the dependence between the
arms on that item. With m criteria and n independent items, the two-sided bounds

    mean(x) -+ h,    h = R * sqrt(ln(2 m / alpha) / (2 n))

hold for all m criteria at once with probability at least 1 - alpha.

Source: Hoeffding (1963), "Probability Inequalities for Sums of Bounded Random Variables", JASA 58:13-30,
Theorem 2, twice per criterion (both sides), and a union bound over the 2 m events.
Assumes: items are independent draws from the population the claim is about; nothing about their variance.

Margins, weights and alpha are decimals in a params file (-0.03 means -3/100), so they are held as fractions,
and a bound is compared with a margin exactly: equal is not above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction

Number = int | float | str | Decimal | Fraction


def exact(value: Number) -> Fraction:
    """The decimal a person wrote, as a fraction: a float stands for its shortest decimal form, 0.1 for 1/10."""
    if isinstance(value, float):
        return Fraction(repr(value))
    return Fraction(value)


def item_range(weights: Iterable[Number], bounds: Sequence[Number] = (0, 1)) -> Fraction:
    """R, the width of the interval an item's weighted value can lie in, for scores within `bounds`."""
    low, high = map(exact, bounds)
    return (high - low) * sum((abs(exact(w)) for w in weights), Fraction(0))


def half_width(n: int, width: Number, alpha: Number, m: int) -> float:
    """h, in the units of the score (0.01 is one accuracy point); `width` is R of `item_range`, m the criteria."""
    return float(half_width_digits(n, width, alpha, m))


def half_width_digits(n: int, width: Number, alpha: Number, m: int, digits: int = 40) -> Fraction:
    """h to `digits` significant digits, as a fraction."""
    context = Context(prec=digits + 5)
    squared = context.multiply(_decimal(exact(width) ** 2 / (2 * n), context), _log_term(alpha, m, context))
    return Fraction(context.sqrt(squared))


def compare(gap: Fraction, n: int, width: Number, alpha: Number, m: int) -> int:
    """The sign (-1, 0, 1) of gap - h, without rounding error.

    Squares both sides: gap > h iff gap > 0 and gap^2 * 2n > R^2 * ln(2m/alpha). The logarithm of a rational
    other than 1 is irrational, so unless R = 0 the two sides differ and enough digits tell them apart.
    """
    scale = exact(width) ** 2
    if scale == 0 or gap <= 0:
        return (gap > 0) - (gap < 0) if scale == 0 else -1
    target = gap * gap * 2 * n / scale
    digits = 30
    while True:
        context = Context(prec=digits)
        log = Fraction(_log_term(alpha, m, context))
        slack = log / 10 ** (digits - 5)
        if target > log + slack:
            return 1
        if target < log - slack:
            return -1
        digits *= 2


def _log_term(alpha: Number, m: int, context: Context) -> Decimal:
    # 2m/alpha > 2, so its logarithm is well away from 0 and the division's rounding stays in the last digits.
    return context.ln(_decimal(2 * m / exact(alpha), context))


def _decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))
