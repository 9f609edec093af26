#!/usr/bin/env bash
# On your own machine: `cluster/submit.sh SPEC [options of nmt-ablate submit and sweep]` is `nmt-ablate submit` of this checkout's .venv.
# RAY_API_SERVER_ADDRESS: the dashboard, http://127.0.0.1:8265 through a tunnel unless it says otherwise. Token: RAY_AUTH_TOKEN,
# RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token. Ctrl-C detaches from the logs; the job continues. What is uploaded: what git tracks.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="$PWD/.venv/bin/python"
[[ -x "$python" ]] || python=python3
exec "$python" -m orchestrator submit "$@"
