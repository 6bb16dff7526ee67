"""On PYTHONPATH with SELFGEN_TRACE=FOLDER, every stage script writes the params keys it reads to FOLDER/STAGE.json.

Python imports a module of this name at start-up. Keys that a stage only copies into its manifest do not count.
"""

import atexit
import json
import os
import sys


def _watch(stage: str, folder: str) -> None:
    from selfgen import params

    paths: dict[int, str] = {}
    kept: list[object] = []
    reads: set[str] = set()
    copying = [False]
    attribute, section, load = params._Model.__getattribute__, params.Params.section, params.load

    def name_parts(model: object, key: str) -> None:
        paths[id(model)] = key
        for field in type(model).model_fields:
            value = model.__dict__[field]
            inside = f"{key}.{field}" if key else field
            for name, part in [(inside, value), *((f"{inside}.{k}", v) for k, v in _items(value))]:
                if isinstance(part, params._Model):
                    name_parts(part, name)

    def _items(value: object) -> list:
        return list(value.items()) if isinstance(value, dict) else []

    def getattribute(self: object, name: str) -> object:
        if not copying[0] and not name.startswith("_") and name in type(self).model_fields and id(self) in paths:
            reads.add(f"{paths[id(self)]}.{name}".removeprefix("."))
        return attribute(self, name)

    def quietly(self: object, *names: str) -> object:
        copying[0] = True
        try:
            return section(self, *names)
        finally:
            copying[0] = False

    def loaded(*args: object) -> object:
        found = load(*args)
        kept.append(found)
        name_parts(found, "")
        return found

    def write() -> None:
        leaves = sorted(key for key in reads if not any(other.startswith(f"{key}.") for other in reads))
        with open(os.path.join(folder, f"{stage}.json"), "w", encoding="utf-8") as file:
            json.dump(leaves, file)

    params._Model.__getattribute__, params.Params.section, params.load = getattribute, quietly, loaded
    atexit.register(write)


if "SELFGEN_TRACE" in os.environ and "-m" in sys.orig_argv:
    _module, *_rest = sys.orig_argv[sys.orig_argv.index("-m") + 1 :]
    if _module.startswith("stages."):
        sys.path.insert(0, os.getcwd())
        _watch("@".join([_module.removeprefix("stages."), *_rest]), os.environ["SELFGEN_TRACE"])
        del sys.path[0]
