#!/usr/bin/env bash
# Entry point of a job, run on the cluster by Ray: `bash cluster/sweep.sh SPEC [options of nmt-ablate sweep]`. Its exit code is the sweep's.
# NMT_MIN_CPUS=N: wait until the cluster has N CPUs. MLFLOW_TRACKING_URI: bring the results to that server afterwards.
set -euo pipefail
trap ':' TERM INT # `ray job stop` asks every process of the job: wait for the sweep, which saves, instead of dying before it
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${NMT_RESULTS:?a folder that every node sees}" "${RAY_ADDRESS:?Ray sets it for a job; to run here, use nmt-ablate sweep}"
if [[ -n "${NMT_DATA_DIR:-}" ]]; then mkdir -p "$NMT_DATA_DIR"; fi
if [[ -n "${NMT_MIN_CPUS:-}" ]]; then python cluster/wait_for_cpus.py "$NMT_MIN_CPUS" --seconds "${NMT_WAIT_SECONDS:-900}"; fi

tracking=()
# the sweep's own store is a sqlite file among the results, which does not belong on a network file system
if [[ -n "${MLFLOW_TRACKING_URI:-}" ]]; then tracking=(--no-tracking); fi
code=0
python -m orchestrator sweep "${tracking[@]}" "$@" || code=$?
if [[ -n "${MLFLOW_TRACKING_URI:-}" ]]; then
  python cluster/mlflow_reconcile.py || echo "warning: MLflow is behind; python cluster/mlflow_reconcile.py brings it up to date" >&2
fi
exit "$code"
