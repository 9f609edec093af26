#!/usr/bin/env bash
# The shared MLflow server: PostgreSQL behind it, a login before it, artifacts through it. Used by compose.yaml and kubernetes.yaml.
# Environment: PGHOST, PGPASSWORD, MLFLOW_AUTH_ADMIN_USERNAME, MLFLOW_AUTH_ADMIN_PASSWORD, MLFLOW_FLASK_SERVER_SECRET_KEY;
# optional NMT_MLFLOW_HOST (127.0.0.1), NMT_MLFLOW_PORT (5000), NMT_MLFLOW_ALLOWED_HOSTS, NMT_MLFLOW_ARTIFACTS, NMT_MLFLOW_WORKERS.
set -euo pipefail
: "${PGHOST:?where PostgreSQL is}" "${PGPASSWORD:?of the database user mlflow}"
: "${MLFLOW_AUTH_ADMIN_USERNAME:?}" "${MLFLOW_AUTH_ADMIN_PASSWORD:?}" "${MLFLOW_FLASK_SERVER_SECRET_KEY:?random; it signs the forms}"
host="${NMT_MLFLOW_HOST:-127.0.0.1}" port="${NMT_MLFLOW_PORT:-5000}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export MLFLOW_AUTH_CONFIG_PATH="$here/basic_auth.ini" MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true
# uvicorn ends a worker that does not answer within 5 s, which on a busy machine is every worker while it imports MLflow
# libpq reads host and password from the environment: neither stands in an address, an argument or a log
exec mlflow server --app-name basic-auth --host "$host" --port "$port" --workers "${NMT_MLFLOW_WORKERS:-2}" \
  --uvicorn-opts "--timeout-worker-healthcheck 120" \
  --backend-store-uri postgresql+psycopg2://mlflow@/mlflow \
  --artifacts-destination "${NMT_MLFLOW_ARTIFACTS:-$PWD/mlflow-artifacts}" \
  --allowed-hosts "${NMT_MLFLOW_ALLOWED_HOSTS:-localhost:$port,127.0.0.1:$port}"
