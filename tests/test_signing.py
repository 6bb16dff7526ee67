"""Signatures: optional, over every artifact, and worth nothing once a byte has changed or the signer is unknown."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from selfgen import signing
from selfgen.errors import DataError, VerifyError
from selfgen.verify import claims, files
from selfgen.verify.run import Run

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH's ssh-keygen")


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A tiny run with one artifact, a key pair and a signature by alice."""
    (tmp_path / "data/filter").mkdir(parents=True)
    (tmp_path / "data/filter/tasks.jsonl").write_text('{"a":1}\n')
    (tmp_path / "data/filter/timing.json").write_text("{}")
    (tmp_path / "params.yaml").write_text("seed: 0\n")
    outs = "".join(f"    - {{path: data/filter/{name}, md5: '0'}}\n" for name in ("tasks.jsonl", "timing.json"))
    (tmp_path / "dvc.lock").write_text(f"stages:\n  filter:\n    outs:\n{outs}")
    new_key(tmp_path / "key")
    (tmp_path / "review").mkdir()
    allow(tmp_path, "alice@example.org", tmp_path / "key.pub")
    done = CliRunner().invoke(signing.sign, ["--key", str(tmp_path / "key"), "--root", str(tmp_path)])
    assert done.exit_code == 0, done.output
    return tmp_path


def new_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)


def allow(root: Path, who: str, public: Path) -> None:
    (root / signing.ALLOWED_SIGNERS).write_text(f"{who} {public.read_text()}")


def claim(root: Path) -> claims.Claim:
    return next(iter(claims.check(Run(root), [files.signature])))


def test_a_signed_run_names_its_signer_and_leaves_volatile_files_out(signed: Path) -> None:
    assert signing.check_signature(signed) == "alice@example.org"
    assert claim(signed).status == claims.VERIFIED
    (signed / "data/filter/timing.json").write_text('{"seconds": 2}')
    assert claim(signed).detail == "alice@example.org signed 3 files"


def test_a_changed_artifact_breaks_the_claim(signed: Path) -> None:
    (signed / "data/filter/tasks.jsonl").write_text('{"a":2}\n')
    assert claim(signed).status == claims.FAILED


def test_a_changed_statement_breaks_the_signature(signed: Path) -> None:
    text = (signed / signing.STATEMENT).read_text()
    (signed / signing.STATEMENT).write_text(text.replace("release", "other"))
    with pytest.raises(VerifyError, match="does not sign"):
        signing.check_signature(signed)


def test_a_stranger_does_not_count(signed: Path) -> None:
    new_key(signed / "mallory")
    signing.sign_run(signed / "mallory", signed)
    with pytest.raises(VerifyError, match="not by a signer"):
        signing.check_signature(signed)


def test_without_a_signature_nothing_is_claimed(signed: Path) -> None:
    (signed / signing.SIGNATURE).unlink()
    found = claim(signed)
    assert found.status == claims.NOT_CHECKABLE
    assert "selfgen sign" in found.detail


def test_a_bad_key_is_one_line(signed: Path) -> None:
    (signed / "nokey").write_text("nothing")
    (signed / "nokey").chmod(0o600)
    with pytest.raises(DataError, match="ssh-keygen cannot sign with it") as raised:
        signing.sign_run(signed / "nokey", signed)
    assert "\n" not in str(raised.value)
    assert not (signed / signing.SIGNATURE).exists()
