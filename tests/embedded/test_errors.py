"""Wrong requests raise the SDK's own exceptions with a message that helps, and nothing hangs."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from urllib.parse import urlparse

import pytest
import tinker
from tinker import types

from selfgen.embedded.launch import running_server
from selfgen.errors import ServiceError

PROMPT = types.ModelInput.from_ints([5, 6, 7])


def test_a_wrong_key_is_an_authentication_error(server) -> None:
    with pytest.raises(tinker.AuthenticationError, match="TINKER_API_KEY"):
        tinker.ServiceClient(base_url=server.base_url, api_key="tml-wrong").create_sampling_client(
            base_model=server.model
        ).result()


def test_unknown_names_are_not_found(client, server) -> None:
    with pytest.raises(tinker.NotFoundError, match="this server has"):
        client.create_lora_training_client("nobody/nothing").result()
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        client.create_sampling_client(model_path="tinker://a/weights/b").result()
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        client.create_training_client_from_state("tinker://a/weights/b").result()
    with pytest.raises(tinker.BadRequestError, match="checkpoint path"):
        client.create_sampling_client(model_path="tinker://../../etc/passwd").result()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_tokens": 100_000}, "context"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -7}, "top_k"),
        ({"stop": [""]}, "stop string"),
    ],
)
def test_sampling_parameters_out_of_range(client, server, params: dict, message: str) -> None:
    sampler = client.create_sampling_client(base_model=server.model).result()
    with pytest.raises(tinker.BadRequestError, match=message):
        sampler.sample(PROMPT, 1, types.SamplingParams(**{"max_tokens": 4, **params})).result()


@pytest.mark.parametrize("tokens", [[], [999_999], [-1]])
def test_bad_prompts(client, server, tokens: list[int]) -> None:
    sampler = client.create_sampling_client(base_model=server.model).result()
    with pytest.raises(tinker.BadRequestError, match="prompt"):
        sampler.sample(types.ModelInput.from_ints(tokens), 1, types.SamplingParams(max_tokens=4)).result()


def test_bad_training_data_and_losses(client, server) -> None:
    train = client.create_lora_training_client(server.model, rank=4, seed=0).result()
    good = {"target_tokens": [6, 7, 8], "weights": [1.0] * 3}

    def send(loss_fn: str, fields: dict, config: dict | None = None):
        return train.forward_backward(
            [types.Datum(model_input=PROMPT, loss_fn_inputs=fields)], loss_fn, config
        ).result()

    with pytest.raises(tinker.RequestFailedError, match="outside the vocabulary"):
        send("cross_entropy", {**good, "target_tokens": [6, 7, 99_999]})
    with pytest.raises(tinker.RequestFailedError, match="3 input tokens"):
        send("cross_entropy", {"target_tokens": [6, 7]})
    with pytest.raises(tinker.RequestFailedError, match="importance_sampling needs"):
        send("importance_sampling", good)
    with pytest.raises(tinker.RequestFailedError, match="accepted"):
        send("cross_entropy", good, {"beta": 1.0})
    with pytest.raises(tinker.RequestFailedError, match="not served"):
        send("gspo", good)
    assert send("cross_entropy", good).metrics["loss:sum"] > 0


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "@0"])
def test_checkpoint_names_stay_in_the_folder(client, server, name: str) -> None:
    train = client.create_lora_training_client(server.model, rank=4, seed=0).result()
    with pytest.raises(tinker.BadRequestError, match="checkpoint name"):
        train.save_state(name).result()


def test_bad_ranks(client, server) -> None:
    for rank in (0, 100_000):
        with pytest.raises(tinker.BadRequestError, match="rank"):
            client.create_lora_training_client(server.model, rank=rank).result()


def raw(server, path: str, body: bytes = b"{}", method: str = "POST", **headers: str) -> tuple[int, dict]:
    request = urllib.request.Request(f"{server.base_url}/api/v1/{path}", data=body, method=method)
    request.add_header("X-API-Key", server.api_key)
    for key, value in headers.items():
        request.add_header(key.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("retrieve_future", b'{"request_id": "never"}', 410),
        ("create_model", b"not json", 400),
        ("create_model", b"[1]", 400),
        ("asample", b'{"sampling_session_id": "x"}', 404),
        ("optim_step", b'{"model_id": "m", "adam_params": {"learning_rate": "x"}}', 422),
        ("optim_step", b'{"model_id": "m", "optimizer_params": {"type": "dimuon"}}', 422),
        ("forward_backward", b"\xff\xff", 400),
        ("copy_weights", b"{}", 404),
    ],
)
def test_malformed_requests_get_a_4xx(server, path: str, body: bytes, status: int) -> None:
    code, answer = raw(server, path, body)
    assert code == status
    assert answer["detail"]


def test_a_step_of_an_unknown_run_fails_its_promise(server) -> None:
    code, promise = raw(server, "optim_step", b'{"model_id": "gone:train:0", "seq_id": 1, "adam_params": {}}')
    assert code == 200
    _, answer = raw(server, "retrieve_future", json.dumps({"request_id": promise["request_id"]}).encode())
    assert answer["category"] == "user"
    assert "not in memory" in answer["error"]


def test_requests_are_limited_in_size_with_and_without_a_declared_length(server) -> None:
    where = urlparse(server.base_url)
    for headers, body in (
        ("Content-Length: 999999999", b""),
        ("Transfer-Encoding: chunked", b"4000000\r\n" + b"x" * 0x4000000 + b"\r\n8\r\nxxxxxxxx\r\n0\r\n\r\n"),
    ):
        with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
            head = f"POST /api/v1/asample HTTP/1.1\r\nHost: x\r\nX-API-Key: {server.api_key}\r\n{headers}\r\n\r\n"
            connection.sendall(head.encode())
            with contextlib.suppress(OSError):
                connection.sendall(body)
            assert b" 413 " in connection.recv(4096).split(b"\r\n")[0]


def test_it_listens_on_loopback_only(server) -> None:
    import psutil

    addresses = {c.laddr.ip for c in psutil.Process(server.pid).net_connections("inet") if c.status == "LISTEN"}
    assert addresses == {"127.0.0.1"}


def test_a_model_that_cannot_be_served_is_one_line(tmp_path) -> None:
    with pytest.raises(ServiceError, match=r"no config\.json"):
        with running_server([str(tmp_path)], tmp_path / "state", seed=0):
            pass
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ServiceError) as caught:
        with running_server([str(tmp_path)], tmp_path / "state", seed=0):
            pass
    assert "\n" not in str(caught.value)


def test_a_folder_can_be_served_under_another_name(tiny) -> None:
    from selfgen.embedded.launch import folders

    assert folders([f"org/name={tiny}", str(tiny)]) == {"org/name": tiny, str(tiny): tiny}
