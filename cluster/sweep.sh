#!/usr/bin/env bash
# Entry point of a job, run on the cluster by Ray: `bash cluster/sweep.sh SPEC [options of nmt-ablate sweep]`. Its exit code is the sweep's.
# NMT_MIN_CPUS=N: wait until the cluster has N CPUs. MLFLOW_TRACKING_URI: the server that follows the sweep.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${NMT_RESULTS:?a folder that every node sees}" "${RAY_ADDRESS:?Ray sets it for a job; to run here, use nmt-ablate sweep}"
if [[ -n "${NMT_DATA_DIR:-}" ]]; then mkdir -p "$NMT_DATA_DIR"; fi
if [[ -n "${NMT_MIN_CPUS:-}" ]]; then python cluster/wait_for_cpus.py "$NMT_MIN_CPUS" --seconds "${NMT_WAIT_SECONDS:-900}"; fi

exec python -m orchestrator sweep "$@"
