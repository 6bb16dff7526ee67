"""The codec reads what the SDK writes, and the SDK reads what the codec writes."""

from __future__ import annotations

import numpy as np
import pytest
from tinker import types
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from selfgen.embedded import protocol
from selfgen.embedded.errors import RequestError
from selfgen.embedded.sampler import SampleJob, SampleParams, Sequence
from selfgen.embedded.streams import UniformStream


def encoded(datum: types.Datum, loss_fn: str = "cross_entropy", config: dict | None = None) -> bytes:
    request = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(data=[datum], loss_fn=loss_fn, loss_fn_config=config),
        model_id="run",
        seq_id=5,
    )
    return forward_backward_request_to_proto(request).SerializeToString()


def tokens(*chunks: list[int]) -> types.ModelInput:
    return types.ModelInput(chunks=[types.EncodedTextChunk(tokens=c) for c in chunks])


def test_requests_are_decoded_as_sent() -> None:
    datum = types.Datum(
        model_input=tokens([1, 2], [3]),
        loss_fn_inputs={
            "target_tokens": types.TensorData(data=[2, 3, 4], dtype="int64", shape=[3]),
            "weights": types.TensorData(data=[0.0, 1.0, 0.5], dtype="float32", shape=[3]),
        },
    )
    request, data, config = protocol.decode_forward_backward(encoded(datum, "ppo", {"clip_low_threshold": 0.9}))
    assert (request.model_id, request.seq_id, request.loss_fn) == ("run", 5, "ppo")
    assert config == {"clip_low_threshold": 0.9}
    assert data[0].tokens.tolist() == [1, 2, 3]
    assert data[0].targets.tolist() == [2, 3, 4]
    assert data[0].fields["weights"].tolist() == [0.0, 1.0, 0.5]


def test_sparse_tensors_become_dense() -> None:
    dense = np.array([[0, 1.5], [0, 0], [2.0, 0]], dtype=np.float32)
    sparse = types.TensorData(
        data=[1.5, 2.0], dtype="float32", shape=[3, 2], sparse_crow_indices=[0, 1, 1, 2], sparse_col_indices=[1, 0]
    )
    targets = types.TensorData(data=[1, 2, 3, 4, 5, 6], dtype="int64", shape=[3, 2])
    datum = types.Datum(model_input=tokens([1, 2, 3]), loss_fn_inputs={"target_tokens": targets, "weights": sparse})
    _, data, _ = protocol.decode_forward_backward(encoded(datum))
    np.testing.assert_array_equal(data[0].fields["weights"], dense)


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"{}"])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match="ForwardBackwardRequest"):
        protocol.decode_forward_backward(body)


def test_missing_targets_and_bad_shapes_are_refused() -> None:
    with pytest.raises(RequestError, match="target_tokens"):
        protocol.decode_forward_backward(encoded(types.Datum(model_input=tokens([1]), loss_fn_inputs={})))
    message = protocol.messages().Tensor(dtype=protocol.messages().DTYPE_FLOAT32, shape=[3], dense=b"\0" * 8)
    with pytest.raises(RequestError, match="do not fit"):
        protocol.decode_tensor("x", message)


def test_results_are_read_back_by_the_sdk() -> None:
    logps = [np.array([-1.0, -2.0]), np.array([-3.0]), np.array([[-1.0, -2.0], [-3.0, -4.0]])]
    output = deserialize_forward_backward_output(protocol.encode_forward_backward(6.5, logps))
    assert output.metrics == {"loss:sum": 6.5}
    for given, array in zip(output.loss_fn_outputs, logps, strict=True):
        assert given["logprobs"].shape == list(array.shape)
        np.testing.assert_array_equal(np.array(given["logprobs"].data).reshape(array.shape), array)


def test_samples_are_read_back_by_the_sdk() -> None:
    job = SampleJob([1, 2], SampleParams(4), 2, [0, 1], None, lambda *_: None, topk_sample=2)
    for reason in ("stop", "length"):
        sequence = Sequence(job, UniformStream(0), [3, 4], [-0.5, -1.5], [([3, 1], [-0.5, -2.0]), ([4, 2], [-1.5, -3])])
        sequence.stop_reason = reason
        job.sequences.append(sequence)
    job.prompt_logps = np.array([np.nan, -0.25], dtype=np.float32)
    response = deserialize_sample_response(protocol.encode_sample(job))
    assert [s.stop_reason for s in response.sequences] == ["stop", "length"]
    assert list(response.sequences[0].tokens) == [3, 4]
    assert list(response.sequences[0].logprobs) == [-0.5, -1.5]
    assert response.prompt_logprobs == [None, -0.25]
    assert response.sequences[0].topk_logprobs_np.token_ids.tolist() == [[3, 1], [4, 2]]


def test_prompts_of_images_are_refused() -> None:
    with pytest.raises(RequestError, match="only text"):
        protocol.prompt_tokens({"chunks": [{"type": "image", "data": "x"}]})
    with pytest.raises(RequestError, match="integers"):
        protocol.prompt_tokens({"chunks": [{"type": "encoded_text", "tokens": ["a"]}]})
    with pytest.raises(RequestError, match="chunks"):
        protocol.prompt_tokens(None)
