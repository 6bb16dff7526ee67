"""A function for the worker under test, in a module of its own: the worker imports it at each start."""

import os
import time


def misbehave(how: str) -> str:
    """Print, die, raise or hang."""
    if how == "print":
        print("noise on stdout", flush=True)
    elif how == "die":
        os._exit(3)
    elif how == "raise":
        raise ValueError("no")
    elif how == "hang":
        time.sleep(60)
    return "done"
