"""The protobuf half of the wire: decoding forward_backward requests, encoding its results and samples.

The message classes are the pinned SDK's own generated module, loaded from its file: importing the `tinker` package
would cost this process seconds for nothing.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from selfgen.embedded.errors import RequestError
from selfgen.embedded.sampler import SampleJob
from selfgen.embedded.trainer import Datum

TENSOR_LIMIT = 1 << 28


@cache
def messages() -> Any:
    """The SDK's `tinker_public_pb2` module."""
    loaded = sys.modules.get("tinker.proto.tinker_public_pb2")
    if loaded is not None:  # a process may register these messages once only
        return loaded
    package = importlib.util.find_spec("tinker")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("the tinker SDK is not installed; run `make setup`")
    file = Path(package.submodule_search_locations[0]) / "proto" / "tinker_public_pb2.py"
    spec = importlib.util.spec_from_file_location("selfgen_tinker_public_pb2", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decode_forward_backward(body: bytes) -> tuple[Any, list[Datum], dict[str, float]]:
    """The request message, its data, and its loss config."""
    pb = messages()
    request = pb.ForwardBackwardRequest()
    try:
        request.ParseFromString(body)
    except Exception:
        raise RequestError("the body is not a ForwardBackwardRequest; this server speaks tinker SDK >= 0.25") from None
    config: dict[str, float] = dict(request.loss_fn_config)
    for key, value in getattr(request, "loss_fn_config_v2", {}).items():  # absent from the messages of older SDKs
        if value.text:
            raise RequestError(f"loss_fn_config {key!r} must be a number")
        config[key] = value.number
    return request, [decode_datum(i, datum) for i, datum in enumerate(request.data)], config


def decode_datum(index: int, datum: Any) -> Datum:
    chunks = []
    for chunk in datum.model_input:
        if chunk.WhichOneof("chunk") != "encoded_text":
            raise RequestError(f"datum {index}: only text tokens are served here, not images or audio", 422)
        if len(chunk.encoded_text.tokens) % 4:
            raise RequestError(f"datum {index}: malformed token bytes")
        chunks.append(np.frombuffer(chunk.encoded_text.tokens, dtype="<i4"))
    tokens = np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int32)
    fields = {name: decode_tensor(f"datum {index}: {name}", t) for name, t in datum.loss_fn_inputs.items()}
    if "target_tokens" not in fields:
        raise RequestError(f"datum {index}: loss_fn_inputs lacks 'target_tokens'")
    targets = fields.pop("target_tokens").astype(np.int64)
    return Datum(tokens, targets, {name: value.astype(np.float32) for name, value in fields.items()})


def decode_tensor(what: str, tensor: Any) -> np.ndarray:
    """A dense or CSR tensor as a numpy array of its declared shape."""
    pb = messages()
    dtypes = {pb.DTYPE_FLOAT32: "<f4", pb.DTYPE_INT64: "<i8", pb.DTYPE_INT32: "<i4"}
    if tensor.dtype not in dtypes:
        raise RequestError(f"{what}: unsupported dtype")
    shape = list(tensor.shape)
    try:
        if tensor.WhichOneof("encoding") == "sparse_csr":
            csr = tensor.sparse_csr
            values = np.frombuffer(csr.values, dtype=dtypes[tensor.dtype])
            rows = np.frombuffer(csr.crow_indices, dtype="<i8")
            columns = np.frombuffer(csr.col_indices, dtype="<i8")
            if len(shape) != 2 or shape[0] * shape[1] > TENSOR_LIMIT or len(rows) != shape[0] + 1:
                raise ValueError
            dense = np.zeros(shape, dtype=values.dtype)
            dense[np.repeat(np.arange(shape[0]), np.diff(rows)), columns] = values
            return dense
        flat = np.frombuffer(tensor.dense, dtype=dtypes[tensor.dtype])
        return flat.reshape(shape) if shape else flat
    except (ValueError, IndexError):
        raise RequestError(f"{what}: its bytes do not fit its shape {shape}") from None


def encode_forward_backward(loss: float, logps: list[np.ndarray]) -> bytes:
    """ForwardBackwardOutput with field `logprobs` per datum and the metric `loss:sum`."""
    pb = messages()
    groups: list[tuple[tuple[int, ...], list[np.ndarray]]] = []
    for array in logps:
        trailing = array.shape[1:]
        if not groups or groups[-1][0] != trailing:
            groups.append((trailing, []))
        groups[-1][1].append(np.ascontiguousarray(array, dtype="<f4"))
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics={"loss:sum": loss})
    for trailing, arrays in groups:
        offsets = np.cumsum([0] + [a.nbytes for a in arrays]).astype("<i8")
        record = output.loss_fn_outputs.add(num_datums=len(arrays), type_tag="ArrayRecord")
        field = record.fields["logprobs"]
        field.data = b"".join(a.tobytes() for a in arrays)
        field.offsets = offsets.tobytes()
        field.dtype = pb.DTYPE_FLOAT32
        field.trailing_shape.extend(trailing)
    return output.SerializeToString()


def encode_sample(job: SampleJob) -> bytes:
    """SampleResponse of a finished job."""
    pb = messages()
    response = pb.SampleResponse()
    for sequence in job.sequences:
        message = response.sequences.add()
        message.stop_reason = pb.STOP_REASON_STOP if sequence.stop_reason == "stop" else pb.STOP_REASON_LENGTH
        message.tokens = np.asarray(sequence.tokens, dtype="<i4").tobytes()
        message.logprobs = np.asarray(sequence.logps, dtype="<f4").tobytes()
        if job.topk_sample:
            ids = np.asarray([t[0] for t in sequence.topk], dtype="<i4")
            logps = np.asarray([t[1] for t in sequence.topk], dtype="<f4")
            fill_topk(message.topk_sampled_logprobs, ids, logps)
    if job.prompt_logps is not None:
        response.prompt_logprobs = job.prompt_logps.astype("<f4").tobytes()
    if job.prompt_topk is not None:
        fill_topk(response.topk_prompt_logprobs, *job.prompt_topk)
    return response.SerializeToString()


def fill_topk(message: Any, ids: np.ndarray, logps: np.ndarray) -> None:
    message.token_ids, message.logprobs = ids.tobytes(), logps.tobytes()
    message.length, message.k = ids.shape


def prompt_tokens(prompt: Any) -> list[int]:
    """Token ids of a JSON ModelInput; only text chunks are served."""
    tokens: list[int] = []
    try:
        for chunk in prompt["chunks"]:
            if chunk.get("type", "encoded_text") != "encoded_text":
                raise RequestError("only text tokens are served here, not images or audio", 422)
            tokens += chunk["tokens"]
    except (KeyError, TypeError, AttributeError):
        raise RequestError("prompt must be {chunks: [{type: encoded_text, tokens: [...]}]}") from None
    if not all(type(token) is int for token in tokens):
        raise RequestError("prompt tokens must be integers")
    return tokens


def as_ints(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)
