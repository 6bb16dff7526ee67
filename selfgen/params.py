"""Typed, validated params: the one reader of params.yaml.

Hydra composes params.yaml from conf/; this module turns it into frozen models with the same names. An
unknown, missing or out-of-range key raises `ParamsError` with the key's full path and what it accepts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from selfgen.errors import ParamsError

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Temperature = Annotated[float, Field(ge=0.0, le=2.0)]
Rate = Annotated[float, Field(gt=0.0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


# What a stage that only samples the base model depends on.
SAMPLED = ("model.name", "model.tokenizer", "model.renderer")
# What a training step depends on: `train` without how many there are and how often the loop saves.
STEP = tuple(
    f"train.{key}" for key in ("group_size", "groups_per_batch", "max_tokens", "loss_fn", "few_shot", "optimizer")
)


class ServiceParams(_Model):
    """Where samples and training come from. Addresses and keys come from the environment, never from here."""

    kind: Literal["embedded", "remote"]
    device: str | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    concurrency: Positive = 64

    @model_validator(mode="after")
    def _embedded_runs_somewhere(self) -> ServiceParams:
        if self.kind == "embedded" and (self.device is None or self.dtype is None):
            raise ValueError("kind `embedded` needs device (cpu or cuda) and dtype (float32 or bfloat16)")
        return self


class ModelParams(_Model):
    """The frozen base model that proposes, solves and is trained. `tokenizer` is a Hub id or folder."""

    name: str
    tokenizer: str
    renderer: str
    lora_rank: Positive


class AuditorParams(_Model):
    """The larger model that re-solves audited tasks. It is only sampled."""

    name: str
    tokenizer: str
    renderer: str


class Sha256Pins(_Model):
    """Expected sha256 of the canonical train and test files; None pins nothing."""

    train: str | None = None
    test: str | None = None


class CuratedParams(_Model):
    """The curated set: a loader in selfgen/curated, where it reads from and the bytes it must give."""

    loader: str
    source: str | None = None
    config: str | None = None
    revision: str | None = None
    accept_changed: bool = False
    sha256: Sha256Pins = Sha256Pins()
    n_train: Positive | None = None
    n_test: Positive | None = None
    seed: int | None = None


class TransferParams(_Model):
    """A set evaluated beside the test set, never deciding: a Hub id, a folder, a JSON lines file, or `standin`.

    `question` may name several fields, which are joined; `items` keeps the first rows, `sha256` pins the canonical ones.
    """

    source: str
    config: str | None = None
    revision: str | None = None
    split: str = "test"
    question: str | tuple[str, ...] = "question"
    answer: str = "answer"
    items: Positive | None = None
    sha256: str | None = None

    @property
    def questions(self) -> tuple[str, ...]:
        """The fields that make the question."""
        return (self.question,) if isinstance(self.question, str) else self.question


class GenerateParams(_Model):
    """Proposals. `style` is how the instruction is put: the registered plan sends it alone."""

    instruction: str
    style: Literal["instruction", "chat_examples"] = "instruction"
    seed: int
    temperature: Temperature
    max_tokens: Positive
    n_candidates: Positive


class SolveParams(_Model):
    """The base model's own attempts at a task, from its text alone."""

    n_samples: Positive
    min_correct: Count
    max_correct: Count
    temperature: Temperature
    max_tokens: Positive
    seed: int

    @model_validator(mode="after")
    def _band_fits(self) -> SolveParams:
        if not self.min_correct <= self.max_correct <= self.n_samples:
            raise ValueError("needs min_correct <= max_correct <= n_samples")
        return self


class DecontaminateParams(_Model):
    """Which overlap detectors reject; all of them are reported whatever stands here."""

    reject: tuple[Literal["exact", "ngram", "minhash", "masked", "self"], ...] = ("exact",)


class FilterParams(_Model):
    """Rules fixed before training."""

    n_accept: Positive
    min_words: Count
    max_words: Positive
    solve: SolveParams
    decontaminate: DecontaminateParams = DecontaminateParams()


class AuditParams(_Model):
    """The blind audit and what it tolerates."""

    sample: Positive
    seed: int
    compare: Literal["numeric_exact"]
    max_label_errors: Count
    max_eval_overlaps: Count
    max_tokens: Positive
    temperature: Temperature
    retries: Count
    votes: Positive = 1


class PreflightParams(_Model):
    """Largest absolute difference in nats between two clients' logprobs of one token."""

    logprob_tolerance: Annotated[float, Field(ge=0.0)]


class PilotParams(_Model):
    """Training steps per arm and evaluation items of the pilot."""

    steps: Positive
    eval_items: Positive


class Price(_Model):
    """A service's price of one million tokens, in `budget.currency`."""

    prefill: Annotated[float, Field(ge=0.0)]
    sample: Annotated[float, Field(ge=0.0)]
    train: Annotated[float, Field(ge=0.0)]

    def money(self, prefill: float = 0, sample: float = 0, train: float = 0) -> float:
        """What so many tokens of each kind cost."""
        return (prefill * self.prefill + sample * self.sample + train * self.train) / 1e6


class BudgetParams(_Model):
    """The most the run may be projected to cost. `override` is the recorded reason to go on all the same."""

    gpu_hours: Rate
    wall_minutes: Rate
    gpus: Annotated[float, Field(ge=0.0)] = 1.0
    override: str | None = None
    currency: str = "USD"
    prices: dict[str, Price] = {}


class Bound(_Model):
    """Inclusive bounds of one gate metric."""

    min: float | None = None
    max: float | None = None


class OptimizerParams(_Model):
    """Adam exactly as it must be sent."""

    name: Literal["adam"]
    learning_rate: Rate
    beta1: Share
    beta2: Share
    eps: Rate


class TrainParams(_Model):
    """The stock loop's settings, equal for every arm."""

    problems: Positive
    steps: Positive
    group_size: Annotated[int, Field(ge=2)]
    groups_per_batch: Positive
    max_tokens: Positive
    loss_fn: Literal["importance_sampling"]
    few_shot: Literal["standard", "none"]
    optimizer: OptimizerParams
    save_every: Positive = 10

    @model_validator(mode="after")
    def _one_pass(self) -> TrainParams:
        if self.steps * self.groups_per_batch > self.problems:
            raise ValueError("needs steps * groups_per_batch <= problems: a problem is trained on once at most")
        return self


class EvalParams(_Model):
    """Greedy evaluation; `few_shot` must equal training's for the arms to be tested as they were trained."""

    max_tokens: Positive
    temperature: Annotated[float, Field(ge=0.0, le=0.0)]
    few_shot: Literal["standard", "none"]
    repeat: bool = False


class ArmParams(_Model):
    """One trained arm: its data, and what else differs from the stock arm. `imported` reads imports/<arm>.jsonl."""

    data: Literal["curated", "tasks", "curated_banded", "mixed", "one_task", "imported"]
    seed: int | None = None
    reward: Literal["stock", "random"] = "stock"


class TrackingParams(_Model):
    """The stock loop's own loggers, off by default: they watch training, change nothing and enter no artifact."""

    loggers: tuple[Literal["wandb", "trackio", "neptune"], ...] = ()
    project: Annotated[str, Field(min_length=1)] = "selfgen"


class CriterionParams(_Model):
    """One registered criterion: the weighted sum of arms' item values whose lower bound must lie above `margin`."""

    id: str
    metric: Literal["accuracy"]
    bounds: tuple[float, float]
    margin: float
    weights: dict[str, float]

    @model_validator(mode="after")
    def _bounds_ordered(self) -> CriterionParams:
        if not self.bounds[0] < self.bounds[1]:
            raise ValueError("needs bounds[0] < bounds[1]")
        if not any(self.weights.values()):
            raise ValueError("needs at least one weight that is not 0")
        return self


class DecisionParams(_Model):
    """The pre-registered rule. `exclude`: test items without which the result is shown once more, beside the verdict."""

    method: Literal["paired_hoeffding"]
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)]
    criteria: Annotated[tuple[CriterionParams, ...], Field(min_length=1)]
    exclude: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[str, ...]:
        """The arms, `base` included, that some criterion weighs, in the criteria's order."""
        return tuple(dict.fromkeys(arm for criterion in self.criteria for arm in criterion.weights))


class Params(_Model):
    """All of params.yaml."""

    scale: str
    seed: int
    service: ServiceParams
    model: ModelParams
    auditor: AuditorParams
    curated: CuratedParams
    transfer: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")], TransferParams] = {}
    generate: GenerateParams
    filter: FilterParams
    audit: AuditParams
    preflight: PreflightParams
    pilot: PilotParams
    budget: BudgetParams
    gate: dict[str, Bound]
    train: TrainParams
    eval: EvalParams
    arms: dict[str, ArmParams]
    decision: DecisionParams
    tracking: TrackingParams = TrackingParams()

    @model_validator(mode="after")
    def _arms_are_known(self) -> Params:
        if "base" in self.arms:
            raise ValueError("arms.base: `base` is the untrained model and always there; name the arm otherwise")
        known = {"base", *self.arms}
        for criterion in self.decision.criteria:
            foreign = sorted(set(criterion.weights) - known)
            if foreign:
                raise ValueError(
                    f"decision.criteria {criterion.id!r} weighs unknown arm {foreign[0]!r}; arms are {', '.join(sorted(known))}"
                )
        if self.audit.sample > self.filter.n_accept:
            raise ValueError(
                f"audit.sample is {self.audit.sample} but filter.n_accept is only {self.filter.n_accept}; lower audit.sample"
            )
        return self

    def arm_seed(self, arm: str) -> int:
        """The seed of a trained arm: its own, or the experiment's."""
        own = self.arms[arm].seed
        return self.seed if own is None else own

    def section(self, *names: str) -> dict[str, Any]:
        """Plain values of some keys, dotted ones nested, for manifests."""
        whole = self.model_dump(mode="json")
        found: dict[str, Any] = {}
        for name in names:
            *outer, last = name.split(".")
            source, target = whole, found
            for part in outer:
                source, target = source[part], target.setdefault(part, {})
            target[last] = source[last]
        return found


def parse(values: Any, source: str = "params.yaml") -> Params:
    """Validate a composed mapping.

    Raises:
        ParamsError: one line naming the first bad key and what it accepts, and how many more there are.
    """
    if not isinstance(values, dict):
        raise ParamsError(f"{source}: not a mapping of params; restore it with `git checkout {source}`")
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]
        key = ".".join(str(part) for part in first["loc"]) or "(whole file)"
        given = first.get("input")
        shown = "" if isinstance(given, (dict, list)) or first["type"] == "missing" else f", not {given!r}"
        message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        if first["type"] == "extra_forbidden":
            message, shown = f"unknown key; {_accepted(first['loc'])}", ""
        elif first["type"] == "missing":
            message = "missing; every scale must set it (see conf/scale/)"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ParamsError(f"{source}: {key}: {message}{shown}{more}") from None


def _accepted(location: tuple[int | str, ...]) -> str:
    """The keys that the mapping around an unknown key accepts."""
    model: Any = Params
    for part in location[:-1]:
        fields = getattr(model, "model_fields", None)
        if fields is None or part not in fields:
            model = {"arms": ArmParams, "transfer": TransferParams}.get(str(location[0]))
            break
        model = fields[part].annotation
    names = sorted(getattr(model, "model_fields", {}))
    return f"accepted here: {', '.join(names)}" if names else "not accepted here"


def load(path: str | Path = "params.yaml") -> Params:
    """Read and validate params.yaml.

    Raises:
        ParamsError: the file is missing, is not YAML, or a key is bad.
    """
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such file; run from the project's folder, or `make params`") from None
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {' '.join(str(error).split())[:160]}") from None
    return parse(values, str(path))
