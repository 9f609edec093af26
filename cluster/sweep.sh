#!/usr/bin/env bash
# Entry point of a job, run on the cluster by Ray: `bash cluster/sweep.sh SPEC [options of nmt-ablate sweep]`. Its exit code is the sweep's.
# MLFLOW_TRACKING_URI: the server that follows the sweep.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${NMT_RESULTS:?a folder that every node sees}" "${RAY_ADDRESS:?Ray sets it for a job; to run here, use nmt-ablate sweep}"
if [[ -n "${NMT_DATA_DIR:-}" ]]; then mkdir -p "$NMT_DATA_DIR"; fi

exec python -m orchestrator sweep "$@"
