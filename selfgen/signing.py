"""Optional signatures: one statement about a whole run, signed with an SSH key. Off unless `selfgen sign` is called.

The statement (reports/release.json) is a stage manifest whose subjects are params.yaml, dvc.lock and every artifact
that dvc.lock records, by sha256: DVC's own md5 hashes find accidents, but are no ground for a signature. It is signed
by `ssh-keygen -Y sign` (the SSHSIG format that git uses for commits), and checked against review/allowed_signers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from selfgen import manifest
from selfgen.errors import DataError, VerifyError
from selfgen.records import write_json

NAMESPACE = "selfgen-release"
STATEMENT, SIGNATURE = "reports/release.json", "reports/release.json.sig"
ALLOWED_SIGNERS = "review/allowed_signers"
VOLATILE = frozenset({"timing.json", "location.json", "provenance.json"})


def statement(outs: Iterable[str], root: str | Path = ".") -> dict[str, Any]:
    """The statement about a run: every recorded artifact but the volatile ones, params.yaml and dvc.lock."""
    kept = [name for name in outs if Path(name).name not in VOLATILE]
    return manifest.build(stage="release", inputs=[], outputs=["params.yaml", "dvc.lock", *kept], root=root)


def sign_run(key: str | Path, root: str | Path = ".") -> dict[str, Any]:
    """Write the statement and its signature; `key` is a private SSH key, or a public one whose agent holds the other.

    Raises:
        DataError: there is no dvc.lock, an artifact is missing, or ssh-keygen refuses the key.
    """
    from selfgen.verify.run import Run

    root = Path(root)
    said = statement(Run(root).locked_outs, root)
    write_json(root / STATEMENT, said)
    (root / SIGNATURE).unlink(missing_ok=True)
    done = _ssh_keygen("-Y", "sign", "-q", "-f", str(Path(key).expanduser()), "-n", NAMESPACE, str(root / STATEMENT))
    if done.returncode:
        raise DataError(f"{key}: ssh-keygen cannot sign with it ({_reason(done)}); give a private key, or load it")
    return said


def check_signature(root: str | Path = ".") -> str:
    """The principal who signed the statement, according to review/allowed_signers.

    Raises:
        VerifyError: the signature is not by an allowed signer, or the statement was changed after it was signed.
    """
    root = Path(root)
    signers, signature = str(root / ALLOWED_SIGNERS), str(root / SIGNATURE)
    found = _ssh_keygen("-Y", "find-principals", "-f", signers, "-s", signature)
    names = found.stdout.decode(errors="replace").split()
    if found.returncode or not names:
        raise VerifyError(f"{SIGNATURE}: not by a signer of {ALLOWED_SIGNERS} ({_reason(found)})")
    data = (root / STATEMENT).read_bytes()
    done = _ssh_keygen(
        "-Y", "verify", "-f", signers, "-I", names[0], "-n", NAMESPACE, "-s", signature, data=data
    )  # fmt: skip
    if done.returncode:
        raise VerifyError(f"{SIGNATURE}: does not sign {STATEMENT} as it stands ({_reason(done)})")
    return names[0]


def _ssh_keygen(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=data, capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        raise DataError("ssh-keygen is not installed; it is part of OpenSSH 8.2 or later") from None


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1][:100] if lines else f"exit code {done.returncode}"


@click.command()
@click.option("--key", required=True, type=click.Path(dir_okay=False), help="Private SSH key, e.g. ~/.ssh/id_ed25519.")
@click.option("--root", default=".", type=click.Path(file_okay=False, path_type=Path), help="The project's folder.")
def sign(key: str, root: Path) -> None:
    """Sign this run: write reports/release.json (hashes of every artifact) and its SSH signature.

    \b
    Examples:
      selfgen sign --key ~/.ssh/id_ed25519
    """
    said = sign_run(key, root)
    click.echo(f"{SIGNATURE}: signs {len(said['subject'])} files; put your public key into {ALLOWED_SIGNERS}")
