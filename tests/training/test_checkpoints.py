"""An adapter's identity is its tensors and nothing else."""

import pytest

from selfgen.errors import DataError, ServiceError
from selfgen.training import checkpoints, preflight


def adapter(folder, change=None, metadata=None, order=("a", "b")):
    import torch
    from safetensors.torch import save_file

    values = {"a": torch.arange(6, dtype=torch.float32).reshape(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}
    if change:
        values |= change(torch)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: values[name] for name in sorted(values, key=lambda n: order.index(n) if n in order else 9)},
              folder / "adapter_model.safetensors", metadata=metadata)  # fmt: skip
    return checkpoints.adapter_digest(folder)


def test_metadata_and_file_order_do_not_change_the_digest(tmp_path):
    first = adapter(tmp_path / "1")
    assert adapter(tmp_path / "2", metadata={"created": "today"}) == first
    assert adapter(tmp_path / "3", order=("b", "a")) == first


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {"a": t.arange(6, dtype=t.float32).reshape(3, 2)},
        lambda t: {"a": t.arange(6, dtype=t.int32).reshape(2, 3)},
        lambda t: {"b": t.ones(4, dtype=t.bfloat16) * 2},
        lambda t: {"c": t.zeros(1)},
    ],
    ids=["shape", "dtype", "values", "extra"],
)
def test_shape_type_values_and_names_do(change, tmp_path):
    assert adapter(tmp_path / "1") != adapter(tmp_path / "2", change)


def test_canonical_files_of_equal_tensors_are_equal_bytes_and_load_anywhere(tmp_path):
    from safetensors.torch import load_file

    adapter(tmp_path / "1", metadata={"created": "today"})
    adapter(tmp_path / "2", order=("b", "a"))
    for name in ("1", "2"):
        checkpoints._canonical(tmp_path / name, tmp_path / f"out{name}")
    files = [tmp_path / f"out{name}" / "adapter_model.safetensors" for name in ("1", "2")]
    assert files[0].read_bytes() == files[1].read_bytes()
    before, after = load_file(tmp_path / "1" / "adapter_model.safetensors"), load_file(files[0])
    assert all((before[name] == after[name]).all() for name in before)
    assert checkpoints.adapter_digest(tmp_path / "out1") == checkpoints.adapter_digest(tmp_path / "1")


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "text"])
def test_a_damaged_adapter_is_an_error_with_its_name(damage, tmp_path):
    adapter(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    data = path.read_bytes()
    path.write_bytes({"missing": b"", "empty": b"", "cut": data[:-3], "text": b"not an adapter at all"}[damage])
    if damage == "missing":
        path.unlink()
    with pytest.raises(DataError, match=r"adapter_model\.safetensors: not a readable adapter"):
        checkpoints.adapter_digest(tmp_path)


def test_an_exported_adapter_loads_in_peft_and_computes_what_the_server_computes(tiny, small, service, tmp_path):
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    start = preflight.make_start(small, service, 0)
    client = service.client.create_training_client_from_state(start.path).result()
    batch = preflight.fixed_batch()
    preflight._step(small, client, batch, preflight.logprobs(client, batch))
    served = preflight.logprobs(client, batch)
    state = client.save_state("stepped").result().path
    digest = checkpoints.export_adapter(service, state, "", tmp_path / "adapter")
    assert digest == checkpoints.adapter_digest(tmp_path / "adapter") != start.digest

    model = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny), str(tmp_path / "adapter")).eval()
    for tokens, expected in zip(batch, served, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([tokens[:-1]])).logits[0].float().log_softmax(-1)
        found = logits.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        assert torch.allclose(found, torch.tensor(expected), atol=1e-3)


def test_a_checkpoint_that_the_service_lacks_is_one_line(service, tmp_path):
    with pytest.raises(ServiceError, match="does not hand out the weights"):
        checkpoints.export_adapter(service, "tinker://gone:train:0/weights/x", "", tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()
    assert list(tmp_path.iterdir()) == []
