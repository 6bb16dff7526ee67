"""Every call of the pinned SDK that a client makes in normal use, against a running server.

Each case is one row of the table in docs/embedded-server.md; `SELFGEN_WRITE_DOCS=1` rewrites it.
"""

from __future__ import annotations

import math
import os
import pickle
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import tinker
from tinker import types

CALLS: dict[str, Callable] = {}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "embedded-server.md"
BEGIN, END = "<!-- calls: begin (written by tests/embedded/test_sdk_calls.py) -->", "<!-- calls: end -->"


def call(name: str, what: str):
    def register(function: Callable) -> Callable:
        CALLS[f"{name} | {what}"] = function
        return function

    return register


def prompt(*tokens: int) -> types.ModelInput:
    return types.ModelInput.from_ints(list(tokens) or [5, 6, 7, 8])


def datum(loss_fn: str = "cross_entropy") -> types.Datum:
    fields = {"target_tokens": [6, 7, 8, 9]}
    if loss_fn == "cross_entropy":
        fields["weights"] = [0.0, 1.0, 1.0, 1.0]
    else:
        fields |= {"logprobs": [-3.0] * 4, "advantages": [0.0, 1.0, -1.0, 0.5]}
    return types.Datum(model_input=prompt(5, 6, 7, 8), loss_fn_inputs=fields)


def sample(x, count: int = 2, sampler=None, options: dict | None = None, **params) -> types.SampleResponse:
    params = {"max_tokens": 12, **params}
    sampler = sampler or x.base
    return sampler.sample(prompt(), count, types.SamplingParams(**params), **(options or {})).result()


@pytest.fixture(scope="module")
def x(server) -> SimpleNamespace:
    service = tinker.ServiceClient(base_url=server.base_url, api_key=server.api_key)
    train = service.create_lora_training_client(server.model, rank=4, seed=1).result()
    rest = tinker.RestClient(base_url=server.base_url, api_key=server.api_key)
    base = service.create_sampling_client(base_model=server.model).result()
    state = train.save_state("start").result().path
    return SimpleNamespace(server=server, service=service, train=train, rest=rest, base=base, state=state)


# ServiceClient -------------------------------------------------------------------------------------------------------


@call("ServiceClient.create_lora_training_client", "rank, seed; which layers; user metadata")
def _(x):
    client = x.service.create_lora_training_client(
        x.server.model, rank=2, seed=3, train_mlp=False, train_unembed=False, user_metadata={"a": "b"}
    ).result()
    assert client.get_info().lora_rank == 2
    assert x.rest.get_training_run(client.model_id).result().user_metadata == {"a": "b"}


@call("ServiceClient.create_training_client_from_state", "weights only")
def _(x):
    assert x.service.create_training_client_from_state(x.state).result().get_info().is_lora


@call("ServiceClient.create_training_client_from_state_with_optimizer", "weights and Adam state")
def _(x):
    one = x.service.create_lora_training_client(x.server.model, rank=4, seed=9).result()
    one.forward_backward([datum()], "cross_entropy").result()
    one.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    path = one.save_state("mid").result().path
    two = x.service.create_training_client_from_state_with_optimizer(path).result()
    three = x.service.create_training_client_from_state(path).result()
    results = []
    for each in (one, two, three):
        each.forward_backward([datum()], "cross_entropy").result()
        each.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        results.append(each.forward([datum()], "cross_entropy").result().metrics["loss:sum"])
    assert results[0] == results[1] != results[2]


@call("ServiceClient.create_sampling_client", "base_model")
def _(x):
    assert x.service.create_sampling_client(base_model=x.server.model).result().get_base_model() == x.server.model


@call("ServiceClient.create_sampling_client", "model_path, of a sampler or a state checkpoint")
def _(x):
    path = x.train.save_weights_for_sampler("for-client").result().path
    for each in (path, x.state):
        client = x.service.create_sampling_client(model_path=each).result()
        assert client.get_base_model() == x.server.model
        assert len(sample(x, 1, client).sequences[0].tokens) <= 12


@call("ServiceClient.create_rest_client, close", "finishes the session")
def _(x):
    with tinker.ServiceClient(base_url=x.server.base_url, api_key=x.server.api_key) as service:
        service.create_sampling_client(base_model=x.server.model).result()
        assert service.create_rest_client().get_server_capabilities().result()


@call("ServiceClient.create_custom_loss", "traced loss, run by the client")
def _(x):
    def loss(logprobs, weights):
        return -(logprobs * weights).sum(), {}

    handle = x.service.create_custom_loss(loss, {"logprobs": 1, "weights": 1}).result()
    custom = x.service.create_training_client_from_state(x.state).result()
    result = custom.forward_backward_custom([datum()], handle).result()
    plain = x.train.forward([datum()], "cross_entropy").result()
    assert result.metrics["loss:sum"] == pytest.approx(plain.metrics["loss:sum"], rel=1e-5)


# TrainingClient ------------------------------------------------------------------------------------------------------


@call("TrainingClient.get_info, get_tokenizer", "")
def _(x):
    assert x.train.get_info().model_data.model_name == x.server.model
    tokenizer = x.train.get_tokenizer()
    assert tokenizer.decode(tokenizer.encode("1 + 1 = 2")) == "1 + 1 = 2"


@call("TrainingClient.forward", "cross_entropy")
def _(x):
    result = x.train.forward([datum(), datum()], "cross_entropy").result()
    logps = [out["logprobs"].to_numpy() for out in result.loss_fn_outputs]
    assert result.metrics["loss:sum"] == pytest.approx(-2 * logps[0][1:].sum(), rel=1e-4)


for _loss, _config in (
    ("cross_entropy", None),
    ("importance_sampling", None),
    ("ppo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}),
    ("cispo", {"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}),
    ("dro", {"beta": 0.1}),
):

    @call("TrainingClient.forward_backward", _loss + (" with its options" if _config else ""))
    def _(x, loss=_loss, config=_config):
        client = x.service.create_training_client_from_state(x.state).result()
        client.forward_backward([datum(loss)] * 3, loss, config).result()
        assert client.optim_step(types.AdamParams()).result().metrics["unclipped_grad_l2:mean"] > 0


@call("TrainingClient.forward_backward", "several chunks, pipelined with optim_step")
def _(x):
    client = x.service.create_training_client_from_state(x.state).result()
    client.holder._client_config = client.holder._client_config.model_copy(update={"fwdbwd_max_chunk_len": 2})
    futures = [client.forward_backward([datum()] * 5, "cross_entropy"), client.optim_step(types.AdamParams())]
    futures += [client.forward_backward([datum()] * 5, "cross_entropy")]
    results = [f.result() for f in futures]
    assert len(results[0].loss_fn_outputs) == 5
    assert results[0].metrics["loss:sum"] > results[2].metrics["loss:sum"]


@call("TrainingClient.forward_backward_custom", "a Python loss on log-probabilities")
def _(x):
    def loss(data, logprobs):
        total = sum((p**2).sum() for p in logprobs)
        return total, {"squares": float(total)}

    client = x.service.create_training_client_from_state(x.state).result()
    result = client.forward_backward_custom([datum(), datum()], loss).result()
    assert result.metrics["squares"] == pytest.approx(result.metrics["loss:sum"])
    assert client.optim_step(types.AdamParams()).result().metrics["unclipped_grad_l2:mean"] > 0


@call("TrainingClient.optim_step", "all AdamParams, gradient clipping")
def _(x):
    client = x.service.create_training_client_from_state(x.state).result()
    client.forward_backward([datum()], "cross_entropy").result()
    params = types.AdamParams(learning_rate=1e-3, beta1=0.8, beta2=0.9, eps=1e-8, weight_decay=0.1, grad_clip_norm=1e-3)
    assert client.optim_step(params).result().metrics


@call("TrainingClient.save_state", "name, overwrite, ttl, metadata")
def _(x):
    path = x.train.save_state("s", ttl_seconds=3600, overwrite=True, user_metadata={"k": "v"}).result().path
    assert path == f"tinker://{x.train.model_id}/weights/s"
    with pytest.raises(tinker.RequestFailedError, match="overwrite"):
        x.train.save_state("s").result()


@call("TrainingClient.load_state, load_state_with_optimizer", "into a live client")
def _(x):
    client = x.service.create_training_client_from_state(x.state).result()
    before = client.forward([datum()], "cross_entropy").result().metrics["loss:sum"]
    client.forward_backward([datum()], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=0.1)).result()
    for load in (client.load_state, client.load_state_with_optimizer):
        load(x.state).result()
        assert client.forward([datum()], "cross_entropy").result().metrics["loss:sum"] == before


@call("TrainingClient.save_weights_for_sampler", "name, ttl")
def _(x):
    path = x.train.save_weights_for_sampler("w", ttl_seconds=3600).result().path
    assert path == f"tinker://{x.train.model_id}/sampler_weights/w"


@call("TrainingClient.save_weights_and_get_sampling_client", "keeps its weights after a later step")
def _(x):
    client = x.service.create_training_client_from_state(x.state).result()
    sampler = client.save_weights_and_get_sampling_client()
    sampler = sampler.result() if hasattr(sampler, "result") else sampler
    before = sampler.compute_logprobs(prompt()).result()
    client.forward_backward([datum()], "cross_entropy").result()
    client.optim_step(types.AdamParams(learning_rate=0.1)).result()
    assert sampler.compute_logprobs(prompt()).result() == before


@call("TrainingClient.save_weights_external", "a folder that PEFT loads; signed links")
def _(x):
    path = x.train.save_weights_external("peft").result().path
    urls = x.rest.get_external_weights_urls(path).result().urls
    assert sorted(urls) == ["adapter_config.json", "adapter_model.safetensors"]
    for url in urls.values():
        with urllib.request.urlopen(url) as answer:
            assert answer.read()


# SamplingClient ------------------------------------------------------------------------------------------------------


@call("SamplingClient.sample", "num_samples, max_tokens, temperature, log-probabilities")
def _(x):
    result = sample(x, 3, temperature=0.7)
    assert len(result.sequences) == 3
    assert all(len(s.logprobs) == len(s.tokens) <= 12 for s in result.sequences)
    assert len({s.sequence_id for s in result.sequences}) == 3


@call("SamplingClient.sample", "seed: repeatable")
def _(x):
    runs = [[s.tokens for s in sample(x, 2, seed=seed).sequences] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@call("SamplingClient.sample", "temperature 0 is greedy")
def _(x):
    runs = [list(s.tokens) for s in sample(x, 2, temperature=0.0).sequences]
    assert runs[0] == runs[1]


@call("SamplingClient.sample", "top_k, top_p")
def _(x):
    greedy = list(sample(x, 1, temperature=0.0).sequences[0].tokens)
    assert list(sample(x, 1, top_k=1).sequences[0].tokens) == greedy
    assert list(sample(x, 1, top_p=1e-6).sequences[0].tokens) == greedy


@call("SamplingClient.sample", "stop: string, strings, token ids, [] never")
def _(x):
    free = sample(x, 1, seed=5, stop=[], max_tokens=40).sequences[0]
    assert len(free.tokens) == 40
    text = x.train.get_tokenizer().decode([free.tokens[9]])
    first = list(free.tokens).index(free.tokens[9]) + 1
    for stop in (text, [text, "zzzz"], [int(free.tokens[9])]):
        stopped = sample(x, 1, seed=5, stop=stop, max_tokens=40).sequences[0]
        assert len(stopped.tokens) <= first
        assert stopped.stop_reason == "stop"


@call("SamplingClient.sample", "include_prompt_logprobs, topk_prompt_logprobs, topk_sample_logprobs")
def _(x):
    options = {"include_prompt_logprobs": True, "topk_prompt_logprobs": 3, "topk_sample_logprobs": 2}
    result = sample(x, 1, options=options)
    assert result.prompt_logprobs[0] is None
    assert all(p < 0 for p in result.prompt_logprobs[1:])
    assert result.topk_prompt_logprobs_np.token_ids.shape == (4, 3)
    assert result.sequences[0].topk_logprobs_np.token_ids.shape == (len(result.sequences[0].tokens), 2)


@call("SamplingClient.sample", "prompt_logprobs_last_n")
def _(x):
    result = sample(x, 1, options={"include_prompt_logprobs": True, "prompt_logprobs_last_n": 2})
    assert [p is None for p in result.prompt_logprobs] == [True, True, False, False]


@call("SamplingClient.compute_logprobs", "equal to forward's, up to rounding")
def _(x):
    sampler = x.service.create_sampling_client(model_path=x.state).result()
    scored = sampler.compute_logprobs(prompt(5, 6, 7, 8, 9)).result()
    forward = x.train.forward([datum()], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    assert scored[0] is None
    assert all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(scored[1:], forward, strict=True))


@call("SamplingClient pickle, get_sampler_handle", "a copy in another process")
def _(x):
    copy = pickle.loads(pickle.dumps(x.base))
    assert sample(x, 1, copy).sequences
    other = tinker.SamplingClient.from_sampler_handle(x.base.get_sampler_handle(), api_key=x.server.api_key)
    assert sample(x, 1, other).sequences


@call("SamplingClient.get_tokenizer, get_base_model", "")
def _(x):
    assert x.base.get_base_model() == x.server.model
    assert x.base.get_tokenizer().encode("1")


# RestClient ----------------------------------------------------------------------------------------------------------


@call("RestClient.get_server_capabilities", "")
def _(x):
    assert x.server.model in [m.model_name for m in x.rest.get_server_capabilities().result().supported_models]


@call("RestClient.get_training_run, get_training_run_by_tinker_path", "")
def _(x):
    run = x.rest.get_training_run(x.train.model_id).result()
    assert run.base_model == x.server.model
    assert x.rest.get_training_run_by_tinker_path(x.state).result().training_run_id == run.training_run_id


@call("RestClient.list_training_runs", "paged")
def _(x):
    page = x.rest.list_training_runs(limit=1).result()
    assert len(page.training_runs) == 1
    assert page.cursor.total_count >= 1


@call("RestClient.list_checkpoints, list_user_checkpoints", "")
def _(x):
    assert x.state in [c.tinker_path for c in x.rest.list_checkpoints(x.train.model_id).result().checkpoints]
    assert x.rest.list_user_checkpoints(limit=100).result().checkpoints


@call("RestClient.get_weights_info_by_tinker_path", "")
def _(x):
    info = x.rest.get_weights_info_by_tinker_path(x.state).result()
    assert (info.base_model, info.lora_rank, info.train_mlp) == (x.server.model, 4, True)


@call("RestClient.set_checkpoint_ttl_from_tinker_path", "")
def _(x):
    path = x.train.save_state("ttl", overwrite=True).result().path
    x.rest.set_checkpoint_ttl_from_tinker_path(path, 3600).result()
    listed = {c.tinker_path: c for c in x.rest.list_checkpoints(x.train.model_id).result().checkpoints}
    assert listed[path].expires_at is not None


@call("RestClient.publish_checkpoint_from_tinker_path, unpublish", "a flag; the server is private all the same")
def _(x):
    x.rest.publish_checkpoint_from_tinker_path(x.state).result()
    x.rest.unpublish_checkpoint_from_tinker_path(x.state).result()


@call("RestClient.delete_checkpoint, delete_checkpoint_from_tinker_path", "")
def _(x):
    path = x.train.save_state("gone", overwrite=True).result().path
    x.rest.delete_checkpoint_from_tinker_path(path).result()
    with pytest.raises(tinker.NotFoundError):
        x.rest.get_weights_info_by_tinker_path(path).result()


@call("RestClient.list_sessions, get_session, get_sampler", "")
def _(x):
    sessions = x.rest.list_sessions().result().sessions
    assert x.service.holder.get_session_id() in sessions
    session = x.rest.get_session(x.service.holder.get_session_id()).result()
    assert x.train.model_id in session.training_run_ids
    assert x.rest.get_sampler(session.sampler_ids[0]).result().base_model == x.server.model


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str, x) -> None:
    CALLS[name](x)


def test_the_docs_list_exactly_these_calls() -> None:
    rows = "\n".join(f"| `{name.split(' | ')[0]}` | {name.split(' | ')[1]} | pass |" for name in CALLS)
    table = f"{BEGIN}\n| call | what is checked | result |\n|---|---|---|\n{rows}\n{END}"
    text = DOCS.read_text(encoding="utf-8")
    start, stop = text.index(BEGIN), text.index(END) + len(END)
    if os.environ.get("SELFGEN_WRITE_DOCS"):
        DOCS.write_text(text[:start] + table + text[stop:], encoding="utf-8")
        return
    assert text[start:stop] == table, "run SELFGEN_WRITE_DOCS=1 pytest tests/embedded/test_sdk_calls.py"
