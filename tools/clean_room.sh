#!/usr/bin/env bash
# Everything from nothing, as a newcomer does it: a clone of HEAD, an empty HOME, a new environment from constraints.txt,
# the README's two commands, then the run shared through a folder remote and verified in another clone.
# CLEAN_ROOM_TEST= (empty) leaves the tests out, which take longest.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
room=$(mktemp -d "${TMPDIR:-/tmp}/clean-room.XXXXXX")
trap 'rm -rf "$room"' EXIT
[ -z "$(git -C "$root" status --porcelain)" ] || echo "note: uncommitted changes are not in the clean room" >&2

for name in $(env | sed -n 's/^\(TINKER_[A-Z_]*\|SELFGEN_[A-Z_]*\|DVC_[A-Z_]*\|HF_[A-Z_]*\|PYTHONPATH\|VIRTUAL_ENV\|VENV\|MAKE[A-Z]*\|MFLAGS\|XDG_[A-Z_]*\)=.*/\1/p'); do
  unset "$name"
done
export HOME="$room/home"
mkdir "$HOME"
commit() { git add -A && git -c user.name=clean -c user.email=room@localhost commit -qm "$1"; }
step() { echo "== $1 ($SECONDS s)"; }

step "clone"
git clone -q "$root" "$room/first"
cd "$room/first"
step "make repro"
make repro PYTHON="${PYTHON:-python3}"
commit "a run"
[ -z "${CLEAN_ROOM_TEST-yes}" ] || { step "make test"; make test; }

step "dvc push"
export PATH="$room/first/.venv/bin:$PATH"
dvc remote add -q -d store "$room/store"
commit "a remote"
dvc push -q

step "dvc pull elsewhere"
git clone -q "$room/first" "$room/third"
cd "$room/third"
dvc pull -q
dvc status | tee >(cat >&2) | grep -q "up to date"
[ -z "$(git status --porcelain)" ] || { echo "error: pulling changed tracked files" >&2; exit 1; }

step "selfgen verify"
# The environment is the first clone's; the code that verifies is this one's.
PYTHONPATH=$PWD selfgen verify | tail -n 1 | tee >(cat >&2) | grep -q " 0 failed"
step "clean room: all done"
