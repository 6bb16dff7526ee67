"""The errors a user can cause. Every one prints as a single line and ends the process with its exit code.

A message says what happened, where, and what to do next. Anything that is not a `SelfgenError` is a bug
in selfgen and keeps its traceback.
"""


class SelfgenError(Exception):
    """Base of all errors a user can act on. `exit_code` is the status the process ends with."""

    exit_code = 1


class ParamsError(SelfgenError):
    """A key in params.yaml is missing, unknown, of the wrong type or out of range."""


class DataError(SelfgenError):
    """An input file is missing, malformed or is not the file it should be. Names file, line and field."""


class ServiceError(SelfgenError):
    """The Tinker service cannot be reached, refuses the key, or lacks the model or call we need."""


class SandboxError(SelfgenError):
    """The sandbox for model-written code does not start or gives a wrong answer: nothing can be labelled."""


class YieldError(SelfgenError):
    """Too few candidates survived the filters to fill the training set."""


class GateError(SelfgenError):
    """A gate, preflight check or audit failed: training must not start. Evidence has been written."""


class BudgetError(SelfgenError):
    """The projected cost is over the published budget and no override is recorded."""


class VerifyError(SelfgenError):
    """An artifact does not support a claim made from it."""
