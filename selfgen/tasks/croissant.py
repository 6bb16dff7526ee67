"""A Croissant description of the task set, so that it can be found and loaded like any published data set.

Croissant 1.0 (https://docs.mlcommons.org/croissant/docs/croissant-spec.html) is schema.org JSON-LD with fields for
machine learning data. The description holds the file's hash and every field of a `Task` row, and nothing volatile.
"""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

from selfgen import __version__
from selfgen.manifest import resource
from selfgen.params import Params
from selfgen.records import Task

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"

# The context that the specification prescribes.
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

_SAYS = {
    "id": "task- and the first 16 hex digits of the sha256 of problem and label",
    "candidate_id": "the proposal this task was made from",
    "index": "place of that proposal in generation order",
    "problem": "the word problem, all that a solver may see",
    "code": "Python whose solve() returns the label",
    "label": "the integer that solve() returned in the sandbox",
    "n_correct": "how many of n_samples attempts of the base model were right",
    "n_samples": "attempts of the base model, from the problem's text alone",
    "solutions": "those attempts, as sampled",
}
_TYPES = {str: "sc:Text", int: "sc:Integer", tuple[str, ...]: "sc:Text"}


def describe(params: Params, tasks: str | Path = "data/filter/tasks.jsonl", root: str | Path = ".") -> dict[str, Any]:
    """The description of the task file at `tasks`, relative to `root`.

    Raises:
        DataError: the file is missing.
    """
    file = resource(tasks, root)
    types = typing.get_type_hints(Task)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": "selfgen-tasks",
        "description": (
            f"{file['annotations']['rows']} grade-school math word problems that {params.model.name} wrote itself, each "
            f"with a program that computes its answer. Kept when the model solves it in {params.filter.solve.min_correct} "
            f"to {params.filter.solve.max_correct} of {params.filter.solve.n_samples} attempts and when it equals no "
            "evaluation question."
        ),
        "version": __version__,
        "license": "https://spdx.org/licenses/MIT.html",
        "citeAs": f"selfgen task set, sha256 {file['digest']['sha256']}",
        "isLiveDataset": False,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "tasks.jsonl",
                "name": "tasks.jsonl",
                "contentUrl": "tasks.jsonl",
                "contentSize": f"{file['annotations']['bytes']} B",
                "encodingFormat": "application/jsonlines",
                "sha256": file["digest"]["sha256"],
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "tasks",
                "name": "tasks",
                "description": "One accepted task a record, in generation order.",
                "key": {"@id": "tasks/id"},
                "field": [_field(field.name, types[field.name]) for field in dataclasses.fields(Task)],
            }
        ],
    }


def _field(name: str, kind: Any) -> dict[str, Any]:
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"tasks/{name}",
        "name": name,
        "description": _SAYS[name],
        "dataType": _TYPES[kind],
        "source": {"fileObject": {"@id": "tasks.jsonl"}, "extract": {"column": name}},
    }
    if kind not in (str, int):
        field["repeated"] = True
    return field
