"""Python source that runs before and after a candidate's program inside the sandbox.

Monty 1.4.0 is silently wrong in two places: `round(x, n)` of a float (it scales, rounds and unscales) and `sum()`
of floats (CPython compensates since 3.12). Both are redefined here to give CPython's result bit for bit. A
redefinition is only added to programs that name the function: compiling it costs more than a typical solve().

Builtins are captured as defaults when the prelude runs, so a program that rebinds `float` or `type` cannot bend it.
"""

from __future__ import annotations

from typing import Final

# CPython: the decimal expansion of the double rounded half-even at `ndigits` (dtoa mode 3), read back as a double.
# A non-negative ndigits is what "%.nf" formatting does exactly; a negative one is integer arithmetic on the
# whole part. Beyond 323 digits nothing changes, beyond -308 all is zero (floatobject.c, float___round___impl).
_ROUND: Final = """\
def round(number, ndigits=None, *, _round=round, _type=type, _float=float, _int=int, _format=format, _str=str):
    if ndigits is None or _type(number) is not _float:
        return _round(number, ndigits)
    _round(0, ndigits)
    ndigits = _int(ndigits)
    if number != number or number - number != 0.0 or ndigits > 323:
        return number
    if ndigits >= 0:
        return _float(_format(number, "." + _str(ndigits) + "f"))
    if ndigits < -308:
        return 0.0 * number
    size = -number if number < 0.0 else number
    whole = _int(size)
    unit = 10**-ndigits
    count = whole // unit
    rest = 2 * (whole - count * unit)
    if rest > unit or (rest == unit and (size > whole or count % 2)):
        count = count + 1
    size = _float(count * unit)
    return -size if number < 0.0 or _str(number) == "-0.0" else size
"""

# CPython >= 3.12: Neumaier's compensated sum over floats; ints inside it are added without compensation
# (bltinmodule.c, builtin_sum_impl). Only a float result can differ, so the builtin goes first.
_SUM: Final = """\
def sum(iterable, /, start=0, *, _sum=sum, _type=type, _range=range, _list=list, _float=float, _int=int, _bool=bool):
    if _type(iterable) is _range:
        return _sum(iterable, start)
    items = _list(iterable)
    total = _sum(items, start)
    if _type(total) is not _float:
        return total
    total = start
    extra = 0.0
    for item in items:
        kind = _type(item)
        if _type(total) is not _float:
            total = total + item
        elif kind is _float:
            after = total + item
            if (-total if total < 0.0 else total) >= (-item if item < 0.0 else item):
                extra = extra + ((total - after) + item)
            else:
                extra = extra + ((item - after) + total)
            total = after
        elif (kind is _int or kind is _bool) and -(2**63) <= item < 2**63:
            total = total + item
        else:
            total = (total + extra if extra != 0.0 and extra - extra == 0.0 else total) + item
            extra = 0.0
    return total + extra if extra != 0.0 and extra - extra == 0.0 else total
"""

LABEL_LIMIT: Final = 10**15  # magnitude of a label; every such int is exact as a double

# The last line of a program. Its value is what solve() returned, if that is a number of at most the limit. Otherwise it
# is [True] for an int and [False] for another number, and for anything that is no number the comparison raises: no giant
# and no container crosses to the caller. The caller checks again and trusts none of it.
CALL: Final = f"_selfgen if -{LABEL_LIMIT} <= (_selfgen := solve()) <= {LABEL_LIMIT} else [type(_selfgen) is int]"


def wrap(code: str) -> str:
    """The whole program to feed: fixes for what `code` names, `code` itself, and the call whose value is the label."""
    fixes = (_ROUND if "round" in code else "") + (_SUM if "sum" in code else "")
    return f"{fixes}{code}\n\n{CALL}\n"
