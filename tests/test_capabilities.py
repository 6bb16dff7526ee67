"""What a service lacks is named before a token is paid, one line for each thing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from selfgen import params as params_module
from selfgen.capabilities import CALLS, check, lacks, missing_calls
from selfgen.embedded.launch import ServerInfo, running_server
from selfgen.errors import ServiceError
from tests.support.faulty import FaultyProxy


def composed(root: Path, **changes: object) -> dict:
    values = yaml.safe_load((root / "params.yaml").read_text())
    values["service"]["kind"] = "remote"
    for key, value in changes.items():
        section, name = key.split("__")
        values[section][name] = value
    return values


def offer(name: str, **known: object) -> SimpleNamespace:
    return SimpleNamespace(model_name=name, **known)


@pytest.mark.parametrize(
    ("offered", "lines"),
    [
        ([offer("selfgen/policy"), offer("selfgen/auditor")], []),  # older services say no more than names
        ([offer("selfgen/policy", sampleable=True, trainable=True, max_context_length=4096), offer("selfgen/auditor")], []),
        ([offer("selfgen/policy")], ["does not offer selfgen/auditor; it offers selfgen/policy; edit auditor.name"]),
        ([], ["does not offer selfgen/policy; it offers no model", "does not offer selfgen/auditor"]),
        ([offer("selfgen/policy", trainable=False), offer("selfgen/auditor", trainable=False)],
         ["does not train selfgen/policy; choose another model.name"]),
        ([offer("selfgen/policy"), offer("selfgen/auditor", sampleable=False)], ["does not sample selfgen/auditor"]),
        ([offer("selfgen/policy"), offer("selfgen/auditor", max_context_length=400)],
         ["selfgen/auditor takes 400 tokens in all, audit.max_tokens and a prompt need about 448; lower audit.max_tokens"]),
    ],
)  # fmt: skip
def test_what_the_list_of_models_lacks(root: Path, offered: list, lines: list[str]) -> None:
    found = lacks(params_module.parse(composed(root)), offered)
    assert len(found) == len(lines)
    assert all(line in said for line, said in zip(lines, found, strict=True))


def test_the_registered_plan_fits_4096_tokens_and_not_2048() -> None:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(Path("conf").resolve()), version_base=None):
        params = params_module.parse(OmegaConf.to_container(compose("config", ["scale=spec"]), resolve=True))
    names = (params.model.name, params.auditor.name)
    assert lacks(params, [offer(name, max_context_length=4096) for name in names]) == []
    (line,) = lacks(params, [offer(name, max_context_length=2048) for name in names])
    assert "audit.max_tokens" in line


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerInfo]:
    with running_server(["selfgen/policy", "selfgen/auditor"], tmp_path_factory.mktemp("state"), seed=0) as info:
        yield info


def test_no_call_is_missing_on_the_embedded_server(server: ServerInfo) -> None:
    assert missing_calls(server.base_url, server.api_key) == []


def test_each_missing_call_is_named(server: ServerInfo) -> None:
    with FaultyProxy(server.base_url) as proxy:
        proxy.missing = frozenset(CALLS)
        found = missing_calls(proxy.url, server.api_key)
    assert [line.split()[3].rstrip(",") for line in found] == list(CALLS)


@pytest.mark.parametrize(
    ("missing", "changes", "message"),
    [
        ((), {}, None),
        (("save_weights_external",), {}, "lacks the call save_weights_external, so trained adapters could not be exported"),
        ((), {"model__lora_rank": 4096}, "makes no LoRA of rank 4096 for selfgen/policy"),
        ((), {"auditor__name": "nobody/large"}, "does not offer nobody/large; it offers selfgen/auditor, selfgen/policy"),
        ((), {"generate__max_tokens": 1020}, "selfgen/policy takes 1,024 tokens in all, generate.max_tokens"),
    ],
)  # fmt: skip
def test_the_command_says_it_and_nothing_is_sampled(
    server: ServerInfo, root: Path, tmp_path: Path, monkeypatch, missing: tuple, changes: dict, message: str | None
) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(composed(root, **changes)))
    monkeypatch.chdir(tmp_path)
    with FaultyProxy(server.base_url) as proxy:
        proxy.missing = frozenset(missing)
        monkeypatch.setenv("TINKER_BASE_URL", proxy.url)
        monkeypatch.setenv("TINKER_API_KEY", server.api_key)
        done = CliRunner().invoke(check)
        assert not proxy.asked
    if message is None:
        assert (done.exit_code, done.exception) == (0, None)
        assert "has what scale=embedded needs" in done.output
    else:
        assert isinstance(done.exception, ServiceError)
        assert str(done.exception).startswith(f"{proxy.url}: {message}")
        assert "\n" not in str(done.exception)
