"""Losses, gradients and Adam against an independent float64 reference.

The reference merges the adapter into plain weight matrices of a transformers model in float64 and lets autograd and
torch.optim do the rest. Tolerances are stated at each comparison.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from selfgen.embedded.config import content_digest
from selfgen.embedded.decoder import Decoder
from selfgen.embedded.errors import RequestError
from selfgen.embedded.lora import ALPHA, Layout, LoraSpec
from selfgen.embedded.trainer import AdamParams, Datum, TrainingRun

RANK = 4


class Reference:
    """A float64 transformers model whose projections are W + (alpha / r) B A with A and B as leaves."""

    def __init__(self, folder, layout: Layout, flat: torch.Tensor):
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
        self.layout = layout
        self.leaves = {n: t.double().clone().requires_grad_(True) for n, t in layout.named(flat).items()}

    def logprobs(self, datum: Datum) -> torch.Tensor:
        weights = dict(self.model.named_parameters())
        merged = {}
        for name in self.leaves:
            if ".lora_A." not in name:
                continue
            module = name.removesuffix(".lora_A.weight")
            base = weights.get(f"{module}.weight", weights["model.embed_tokens.weight"])
            b = self.leaves[name.replace("lora_A", "lora_B")]
            merged[module] = base.detach() + (ALPHA / RANK) * b @ self.leaves[name]
        head = merged.pop("lm_head", weights["model.embed_tokens.weight"].detach())
        changed = {f"{module.removeprefix('model.')}.weight": value for module, value in merged.items()}
        hidden = torch.func.functional_call(
            self.model.model, changed, kwargs={"input_ids": torch.tensor(datum.tokens[None].astype(np.int64))}
        ).last_hidden_state[0]
        table = torch.log_softmax(hidden @ head.T, dim=-1)
        targets = torch.tensor(datum.targets.reshape(len(datum.targets), -1))
        return table.gather(1, targets).reshape(datum.targets.shape)

    def grad(self) -> torch.Tensor:
        zero = {n: torch.zeros_like(t) for n, t in self.leaves.items()}
        return self.layout.flatten({n: zero[n] if t.grad is None else t.grad for n, t in self.leaves.items()})


def make_data(loss_fn: str, seed: int = 0, count: int = 5) -> list[Datum]:
    rng = np.random.default_rng(seed)
    data = []
    for _ in range(count):
        n = int(rng.integers(2, 30))
        fields = {
            "weights": rng.choice([0.0, 1.0, 0.5], n),
            "logprobs": rng.normal(-3, 1, n),
            "advantages": rng.normal(0, 1, n) * rng.integers(0, 2, n),
        }
        names = ("weights",) if loss_fn == "cross_entropy" else ("logprobs", "advantages")
        tokens, targets = rng.integers(3, 100, n), rng.integers(3, 100, n)
        data.append(Datum(tokens, targets, {name: fields[name].astype(np.float32) for name in names}))
    return data


def reference_loss(loss_fn: str, logp: torch.Tensor, datum: Datum, config: dict) -> torch.Tensor:
    """The documented formulas, written out a second time."""
    get = {k: torch.tensor(v).double() for k, v in datum.fields.items()}
    if loss_fn == "cross_entropy":
        return (-logp * get["weights"]).sum()
    ratio, advantage = torch.exp(logp - get["logprobs"]), get["advantages"]
    low, high = config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2)
    if loss_fn == "importance_sampling":
        return -(ratio * advantage).sum()
    if loss_fn == "ppo":
        return -torch.min(ratio * advantage, torch.clamp(ratio, low, high) * advantage).sum()
    if loss_fn == "cispo":
        return -(torch.clamp(ratio, low, high).detach() * advantage * logp).sum()
    return -(logp * advantage - 0.5 * config.get("beta", 0.05) * (logp - get["logprobs"]) ** 2).sum()


def run_of(decoder: Decoder, folder, scale: float = 0.05) -> TrainingRun:
    layout = Layout.of(decoder, LoraSpec(RANK, 0))
    noise = torch.randn(layout.size, generator=torch.Generator().manual_seed(3)) * scale
    return TrainingRun(decoder, layout, layout.initial(content_digest(folder)) + noise)


CASES = [
    ("cross_entropy", {}),
    ("importance_sampling", {}),
    ("ppo", {}),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.05}),
    ("cispo", {}),
    ("cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 4.0}),
    ("dro", {"beta": 0.2}),
]


@pytest.mark.parametrize(("loss_fn", "config"), CASES)
def test_loss_logprobs_and_gradient_equal_float64(decoder: Decoder, tiny, loss_fn: str, config: dict) -> None:
    run = run_of(decoder, tiny)
    data = make_data(loss_fn)
    reference = Reference(tiny, run.layout, run.flat)
    logps = [reference.logprobs(d) for d in data]
    expected = sum(reference_loss(loss_fn, p, d, config) for p, d in zip(logps, data, strict=True))
    expected.backward()
    loss, outputs = run.forward_backward(data, loss_fn, config, backward=True, budget=40)
    # float32 against float64: relative 2e-5 on the loss, 1e-4 absolute on log-probabilities, 1e-4 of the largest
    # gradient element.
    assert loss == pytest.approx(float(expected.detach()), rel=2e-5)
    for output, logp in zip(outputs, logps, strict=True):
        np.testing.assert_allclose(output, logp.detach().numpy(), atol=1e-4)
    grad = reference.grad()
    assert run.grad is not None
    torch.testing.assert_close(run.grad, grad, rtol=0, atol=1e-4 * float(grad.abs().max()))


def test_forward_only_leaves_no_gradient(decoder: Decoder, tiny) -> None:
    run = run_of(decoder, tiny)
    data = make_data("cross_entropy")
    loss, outputs = run.forward_backward(data, "cross_entropy", {}, backward=False)
    again, same = run.forward_backward(data, "cross_entropy", {}, backward=True)
    assert run.grad is not None
    assert loss == pytest.approx(again, rel=1e-6)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(outputs, same, strict=True))


def test_gradients_accumulate_over_calls_and_micro_batches(decoder: Decoder, tiny) -> None:
    data = make_data("cross_entropy", count=6)
    whole, parts = run_of(decoder, tiny), run_of(decoder, tiny)
    whole.forward_backward(data, "cross_entropy", {}, backward=True)
    parts.forward_backward(data[:2], "cross_entropy", {}, backward=True)
    parts.forward_backward(data[2:], "cross_entropy", {}, backward=True, budget=1)
    assert whole.grad is not None
    torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_equals_torch_in_float64(decoder: Decoder, tiny, decay: float, clip: float) -> None:
    run = run_of(decoder, tiny)
    params = AdamParams(3e-3, 0.9, 0.95, 1e-8, decay, clip)
    leaf = run.flat.double().clone().requires_grad_(True)
    optimizer = torch.optim.AdamW([leaf], lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        grad = torch.randn(leaf.shape, generator=generator) * 1e-3
        run.grad = grad.clone()
        leaf.grad = grad.double()
        norm = torch.nn.utils.clip_grad_norm_([leaf], clip) if clip else leaf.grad.norm()
        optimizer.step()
        assert run.optim_step(params)["unclipped_grad_l2:mean"] == pytest.approx(float(norm), rel=1e-6)
        assert run.grad is None
    torch.testing.assert_close(run.flat.double(), leaf.detach(), rtol=1e-5, atol=1e-7)


def test_top_k_targets_have_one_weight_each(decoder: Decoder, tiny) -> None:
    rng = np.random.default_rng(0)
    datum = Datum(
        rng.integers(3, 100, 6), rng.integers(3, 100, (6, 3)), {"weights": rng.random((6, 3)).astype(np.float32)}
    )
    run = run_of(decoder, tiny)
    logp = Reference(tiny, run.layout, run.flat).logprobs(datum)
    loss, outputs = run.forward_backward([datum], "cross_entropy", {}, backward=True)
    assert loss == pytest.approx(float((-logp.detach() * torch.tensor(datum.fields["weights"])).sum()), rel=2e-5)
    np.testing.assert_allclose(outputs[0], logp.detach().numpy(), atol=1e-4)


def test_a_gradient_that_is_not_finite_is_refused_and_cleared(decoder: Decoder, tiny) -> None:
    run = run_of(decoder, tiny)
    before = run.flat.clone()
    run.grad = torch.full_like(run.flat, float("nan"))
    with pytest.raises(RequestError, match="not finite"):
        run.optim_step(AdamParams())
    assert torch.equal(run.flat, before)
    assert run.grad is None


BAD = {
    "no data": ([], "no data"),
    "token outside": ([Datum(np.array([1, 9999]), np.array([1, 2]), {})], "outside the vocabulary"),
    "target outside": ([Datum(np.array([1, 2]), np.array([1, -2]), {})], "outside the vocabulary"),
    "shapes": ([Datum(np.array([1, 2]), np.array([1]), {})], "target_tokens"),
    "too long": ([Datum(np.ones(600, int), np.ones(600, int), {})], "context"),
    "weights shape": ([Datum(np.array([1, 2]), np.array([1, 2]), {"weights": np.ones(3)})], "shape"),
    "nan": ([Datum(np.array([1]), np.array([1]), {"weights": np.array([np.nan])})], "not finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_with_its_place(decoder: Decoder, tiny, case: str) -> None:
    data, message = BAD[case]
    with pytest.raises(RequestError, match=message):
        run_of(decoder, tiny).forward_backward(data, "cross_entropy", {}, backward=True)


def test_unknown_losses_and_options_are_refused(decoder: Decoder, tiny) -> None:
    run = run_of(decoder, tiny)
    with pytest.raises(RequestError, match="not served here"):
        run.forward_backward(make_data("ppo"), "gspo", {}, backward=True)
    with pytest.raises(RequestError, match="accepted: clip_low_threshold"):
        run.forward_backward(make_data("ppo"), "ppo", {"clip": 1.0}, backward=True)


def grouped_data(loss_fn: str) -> list[Datum]:
    """Three prompts of 40 tokens with four answers each, one answer equal to another, and a lone short sequence."""
    rng = np.random.default_rng(1)
    data = []
    for _ in range(3):
        prompt = rng.integers(3, 100, 40)
        for answer in range(4):
            tokens = np.concatenate([prompt, rng.integers(3, 100, 5 + 7 * answer)])
            fields = {
                "logprobs": rng.normal(-3, 1, len(tokens) - 1).astype(np.float32),
                "advantages": ((np.arange(len(tokens) - 1) >= 39) * rng.normal()).astype(np.float32),
            }
            data.append(Datum(tokens[:-1], tokens[1:], fields))
    data.append(Datum(data[0].tokens, data[0].targets, {k: v * 2 for k, v in data[0].fields.items()}))
    return [*data, *make_data(loss_fn, count=1)]


def test_shared_prompts_change_nothing(decoder: Decoder, tiny, monkeypatch) -> None:
    from selfgen.embedded import packing

    data = grouped_data("importance_sampling")
    shared, alone = run_of(decoder, tiny), run_of(decoder, tiny)
    loss, outputs = shared.forward_backward(data, "importance_sampling", {}, backward=True)
    assert sum(len(p.tokens) for p in packing.pack([d.tokens for d in data], 4096)) < 0.6 * sum(
        len(d.tokens) for d in data
    )
    monkeypatch.setattr(packing, "MIN_SHARED", 10_000)
    same, expected = alone.forward_backward(data, "importance_sampling", {}, backward=True)
    assert loss == pytest.approx(same, rel=1e-5)
    for one, other in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert alone.grad is not None
    torch.testing.assert_close(shared.grad, alone.grad, rtol=0, atol=1e-5 * float(alone.grad.abs().max()))


@pytest.mark.parametrize("budget", [1, 50, 120, 4096])
def test_packing_covers_every_token_once_per_member(budget: int) -> None:
    from selfgen.embedded.packing import pack

    sequences = [d.tokens for d in grouped_data("ppo")]
    seen = []
    for packing in pack(sequences, budget):
        start = 0
        for member, length in zip(packing.members, packing.lengths, strict=True):
            rows = packing.index[start : start + length]
            assert packing.tokens[rows].tolist() == sequences[member].tolist()
            assert packing.positions[rows].tolist() == list(range(length))
            start += length
            seen.append(member)
        assert packing.index[packing.first].tolist() == list(range(len(packing.tokens)))
        assert len(packing.tokens) <= budget or len(packing.members) == 1
    assert sorted(seen) == list(range(len(sequences)))


@pytest.mark.parametrize("flags", [{"unembed": False}, {"attn": False, "mlp": False}])
def test_adapters_with_or_without_the_output_embedding_train(decoder: Decoder, flags: dict) -> None:
    layout = Layout.of(decoder, LoraSpec(RANK, 0, **flags))
    run = TrainingRun(decoder, layout, layout.initial("base"))
    data = make_data("cross_entropy")
    before, _ = run.forward_backward(data, "cross_entropy", {}, backward=True)
    run.optim_step(AdamParams(learning_rate=1e-2))
    assert run.forward_backward(data, "cross_entropy", {}, backward=False)[0] < before


def test_a_micro_batch_is_as_large_as_the_device_allows(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `token_budget` allows is what is packed: a fixed small default costs a GPU most of its speed."""
    layout = Layout.of(decoder, LoraSpec(2, 0))
    data = [
        Datum(np.full(40, 3 + i), np.full(40, 4), {"weights": np.ones(40, np.float32)}) for i in range(5)
    ]  # no shared prefix
    for allowed, expected in ((40, 5), (80, 3), (1000, 1)):
        run = TrainingRun(decoder, layout, torch.zeros(layout.size))
        batches: list[int] = []
        monkeypatch.setattr(run, "token_budget", lambda allowed=allowed: allowed)
        monkeypatch.setattr(
            run, "map", lambda work, packings, seen=batches: [seen.append(1) or work(p) for p in packings]
        )
        run.forward_backward(data, "cross_entropy", {}, backward=True)
        assert len(batches) == expected
