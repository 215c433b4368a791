#!/bin/sh
# Pins every group for Python 3.11 and newer, x86_64 and aarch64, with hashes and without naming an index.
set -eu
cd "$(dirname "$0")/.."

tool=build/lock
if [ ! -x "$tool/bin/uv" ]; then
    "${PYTHON:-python3}" -m venv "$tool"
    "$tool/bin/python" -m pip install -q uv
fi

pin() {
    output=$1
    shift
    "$tool/bin/uv" pip compile -q --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-emit-find-links "$@" -o "requirements/$output"
}

pin run.txt --group build pyproject.toml
pin test.txt --group test -c requirements/run.txt
pin bench.txt --group bench -c requirements/run.txt
pin model.txt --group model --no-deps
