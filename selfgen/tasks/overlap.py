"""Decontamination: does a problem overlap an evaluation question, by which measure, and on what evidence?

Four detectors, from strict to loose, each with its evidence; `filter.decontaminate.reject` names those that
reject, and all are reported whatever stands there (docs/decontamination.md has their measured recall).

| detector | a hit means |
|---|---|
| exact | the normal forms are equal (normalise.py) |
| ngram | at least 30 % of the smaller text's word 8-grams stand in the other |
| minhash | the sets of word 3-grams have a Jaccard similarity of at least 0.4 |
| masked | as ngram, at 5-grams and 50 %, after hiding numbers and names: the same story with other numbers |

The share is of the shorter text's distinct n-grams, so a question pasted into a longer one still hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from selfgen.records import CuratedRow, Task
from selfgen.tasks.normalise import Masker, normalise, tokens

DETECTORS = ("exact", "ngram", "minhash", "masked")
NGRAM, NGRAM_SHARE = 8, 0.3
MASKED, MASKED_SHARE = 5, 0.5
SHINGLE, JACCARD, PERMUTATIONS = 3, 0.4, 128
EVIDENCE = 3  # longest shared passages quoted per match


@dataclass(frozen=True)
class Match:
    """One detector's best hit: the curated row, how similar (0 to 1), and the shared passages, longest first."""

    detector: str
    row: str
    score: float
    evidence: tuple[str, ...]

    def explain(self) -> str:
        """One line for a rejection's detail."""
        shared = "; ".join(f"'{e}'" for e in self.evidence)
        return f"{self.detector} overlap with {self.row} (similarity {self.score:.2f}): {shared}"


def shingles(words: Sequence[str], n: int) -> list[str]:
    """All runs of n words, in order; a shorter text is one run."""
    if len(words) <= n:
        return [" ".join(words)] if words else []
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]


def shared_passages(words: Sequence[str], n: int, other: frozenset[str]) -> tuple[str, ...]:
    """The longest passages of `words` whose n-grams all stand in `other`, longest first."""
    runs, start = [], None
    hits = [s in other for s in shingles(words, n)] + [False]
    for i, hit in enumerate(hits):
        if hit and start is None:
            start = i
        elif not hit and start is not None:
            runs.append(words[start : i - 1 + n])
            start = None
    runs.sort(key=len, reverse=True)
    return tuple(" ".join(r) for r in runs[:EVIDENCE])


class ShingleIndex:
    """Curated texts by their distinct n-grams, to find the one that shares the largest part of them.

    `similarity(shared, a, b)` turns counts of distinct n-grams (shared, in the query, in the row) into 0 to 1.
    """

    def __init__(self, rows: Iterable[tuple[str, Sequence[str]]], n: int, similarity: Callable[[int, int, int], float]):
        self.n = n
        self.similarity = similarity
        self.ids: list[str] = []
        self.sets: list[frozenset[str]] = []
        self.postings: dict[str, list[int]] = {}
        for row_id, words in rows:
            grams = frozenset(shingles(words, n))
            for gram in sorted(grams):
                self.postings.setdefault(gram, []).append(len(self.ids))
            self.ids.append(row_id)
            self.sets.append(grams)

    def nearest(self, words: Sequence[str], skip: int | None = None) -> tuple[int | None, float]:
        """The most similar row (the first among equals) save row `skip`, and its similarity; (None, 0.0) for none."""
        grams = set(shingles(words, self.n))
        counts: dict[int, int] = {}
        for gram in grams:
            for row in self.postings.get(gram, ()):
                counts[row] = counts.get(row, 0) + 1
        if skip is not None:
            counts.pop(skip, None)
        best, score = None, 0.0
        for row, shared in sorted(counts.items()):
            value = self.similarity(shared, len(grams), len(self.sets[row]))
            if value > score:
                best, score = row, value
        return best, score


def containment(shared: int, a: int, b: int) -> float:
    """Share of the smaller set that the other one contains (Broder 1997, resemblance and containment)."""
    return shared / min(a, b)


def jaccard(shared: int, a: int, b: int) -> float:
    """Shared over all distinct (Broder 1997)."""
    return shared / (a + b - shared)


class MinHashIndex:
    """Locality-sensitive hashing over word 3-grams (datasketch); candidates are checked with the exact Jaccard.

    LSH may miss a pair near the threshold and, because of the check, never invents one.
    """

    def __init__(self, rows: Iterable[tuple[str, Sequence[str]]], n: int, threshold: float, permutations: int) -> None:
        from datasketch import MinHash, MinHashLSH

        self._empty = MinHash(num_perm=permutations, seed=1)  # drawing its permutations is the costly part
        self.n, self.threshold, self.permutations = n, threshold, permutations
        self.lsh = MinHashLSH(threshold=threshold, num_perm=permutations)
        self.ids: list[str] = []
        self.sets: list[frozenset[str]] = []
        for row_id, words in rows:
            grams = frozenset(shingles(words, n))
            self.lsh.insert(len(self.ids), self._sketch(grams), check_duplication=False)
            self.ids.append(row_id)
            self.sets.append(grams)

    def _sketch(self, grams: Iterable[str]) -> Any:
        sketch = self._empty.copy()
        sketch.update_batch([g.encode() for g in grams])
        return sketch

    def nearest(self, words: Sequence[str]) -> tuple[int | None, float]:
        """The most similar row that LSH proposes and its exact Jaccard similarity."""
        grams = frozenset(shingles(words, self.n))
        best, score = None, 0.0
        if grams:
            for row in sorted(self.lsh.query(self._sketch(grams))):
                value = jaccard(len(grams & self.sets[row]), len(grams), len(self.sets[row]))
                if value > score:
                    best, score = row, value
        return best, score


class OverlapIndex:
    """The curated questions that no training task may repeat, indexed for every detector.

    Detectors other than `exact` are built when first asked, so a stage that needs only exact matching pays for
    no more.
    """

    def __init__(self, rows: Sequence[CuratedRow]) -> None:
        self.rows = tuple(rows)
        self._exact: dict[str, str] = {}
        for row in self.rows:
            self._exact.setdefault(normalise(row.question), row.id)
        self._masker: Masker | None = None
        self._indexes: dict[str, ShingleIndex | MinHashIndex] = {}

    @classmethod
    def build(cls, questions: Iterable[CuratedRow]) -> OverlapIndex:
        """Index the questions of a curated split, all of them at once."""
        return cls(tuple(questions))

    @property
    def masker(self) -> Masker:
        """Hides numbers and names as this corpus writes them."""
        if self._masker is None:
            self._masker = Masker.learn(row.question for row in self.rows)
        return self._masker

    def exact(self, problem: str) -> str | None:
        """The id of the question that `problem` equals after normalisation, or None."""
        return self._exact.get(normalise(problem))

    def words(self, detector: str, problem: str) -> Sequence[str]:
        """The form of a text that a detector compares."""
        return self.masker.tokens(problem) if detector == "masked" else tokens(problem)

    def index(self, detector: str) -> ShingleIndex | MinHashIndex:
        """The (lazily built) index behind ngram, minhash or masked."""
        if detector not in self._indexes:
            rows = ((row.id, self.words(detector, row.question)) for row in self.rows)
            if detector == "minhash":
                self._indexes[detector] = MinHashIndex(rows, SHINGLE, JACCARD, PERMUTATIONS)
            elif detector == "ngram":
                self._indexes[detector] = ShingleIndex(rows, NGRAM, containment)
            else:
                self._indexes[detector] = ShingleIndex(rows, MASKED, containment)
        return self._indexes[detector]

    def match(self, detector: str, problem: str) -> Match | None:
        """The best hit of one detector of DETECTORS at or above its threshold, or None."""
        if detector == "exact":
            row_id = self.exact(problem)
            return Match("exact", row_id, 1.0, (normalise(problem),)) if row_id is not None else None
        index = self.index(detector)
        words = self.words(detector, problem)
        row, score = index.nearest(words)
        if row is None or score < {"ngram": NGRAM_SHARE, "minhash": JACCARD, "masked": MASKED_SHARE}[detector]:
            return None
        return Match(detector, index.ids[row], round(score, 6), shared_passages(words, index.n, index.sets[row]))

    def report(self, problem: str) -> dict[str, dict[str, Any] | None]:
        """Every detector's best hit on one problem, as JSON values; None where a detector found nothing."""
        found = {detector: self.match(detector, problem) for detector in DETECTORS}
        return {detector: asdict(hit) if hit else None for detector, hit in found.items()}


def summarise(tasks: Iterable[Task], index: OverlapIndex, reject: Sequence[str]) -> dict[str, Any]:
    """overlap.json: how many accepted tasks each detector hits, every hit explained, and duplicates among them.

    `generated_eval_exact_overlaps` is the gate's metric.
    """
    counts = dict.fromkeys(DETECTORS, 0)
    matches = []
    first: dict[str, str] = {}
    duplicates = []
    n = 0
    for task in tasks:
        n += 1
        for detector in DETECTORS:
            hit = index.match(detector, task.problem)
            if hit is not None:
                counts[detector] += 1
                matches.append({"task_id": task.id, **asdict(hit)})
        key = normalise(task.problem)
        if key in first:
            duplicates.append({"task_id": task.id, "candidate_id": task.candidate_id, "same_as": first[key]})
        else:
            first[key] = task.candidate_id
    return {
        "accepted": n,
        "curated_questions": len(index.rows),
        "rejecting": sorted(reject),
        "generated_eval_exact_overlaps": counts["exact"],
        "hits": {**counts, "self": len(duplicates)},
        "matches": matches,
        "self_duplicates": duplicates,
        "thresholds": {
            "ngram": {"n": NGRAM, "containment": NGRAM_SHARE},
            "minhash": {"n": SHINGLE, "jaccard": JACCARD, "permutations": PERMUTATIONS},
            "masked": {"n": MASKED, "containment": MASKED_SHARE},
        },
    }
