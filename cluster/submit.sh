#!/usr/bin/env bash
# On your own machine: `cluster/submit.sh SPEC [options of nmt-ablate sweep]` uploads this checkout and runs the sweep on the cluster.
# RAY_API_SERVER_ADDRESS: the dashboard, http://127.0.0.1:8265 through a tunnel unless it says otherwise. Token: RAY_AUTH_TOKEN,
# RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token. Ctrl-C detaches from the logs; the job goes on. What is uploaded: all but .gitignore and .rayignore.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RAY_AUTH_MODE=token RAY_API_SERVER_ADDRESS="${RAY_API_SERVER_ADDRESS:-http://127.0.0.1:8265}"
if [[ -z "${RAY_AUTH_TOKEN:-}" && ! -r "${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}" ]]; then
  echo "error: no token: set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's" >&2
  exit 2
fi
ray="$PWD/.venv/bin/ray"
[[ -x "$ray" ]] || ray=ray
exec "$ray" job submit ${NMT_SUBMISSION_ID:+--submission-id "$NMT_SUBMISSION_ID"} --working-dir . -- bash cluster/sweep.sh "$@"
