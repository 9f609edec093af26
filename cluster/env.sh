# Environment of every Ray node on machines (`ray up`): sourced before `ray start`, so that all of Ray's processes have it.
# Kubernetes has the same settings in kuberay/setup.yaml; a test keeps the two equal. No secret belongs here.
# shellcheck shell=sh

# Ray: the token lies in ~/.ray/auth_token of each node
export RAY_AUTH_MODE=token
export RAY_USAGE_STATS_ENABLED=0

# What the product sets for a cluster it starts itself; on one that runs already these must be there before Ray is
export RAY_TRAIN_V2_ENABLED=1
export RAY_TRAIN_HEALTH_CHECK_INTERVAL_S=0.2
export RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=600
export RAY_AIR_NEW_OUTPUT=0
export RAY_ENABLE_AUTO_CONNECT=0
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 # a Tune driver holds no GPU, yet must see that there are some
export TUNE_DISABLE_SIGINT_HANDLER=1
export TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1
export TUNE_DISABLE_AUTO_CALLBACK_SYNCER=1
export TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S=0
export RAY_JOB_STOP_WAIT_TIME_S=600 # `ray job stop` asks, and kills after this: Ray's own 3 s are too short for rows to save
export MALLOC_ARENA_MAX=2 # each trial is a thread, whose freed memory glibc keeps otherwise
export OMP_NUM_THREADS=1 # bits are promised at equal thread counts

# Shared storage: every node sees these folders under the same name
export NMT_RESULTS="${NMT_RESULTS:-/mnt/nmt/results}"
export NMT_DATA_DIR="${NMT_DATA_DIR:-/mnt/nmt/data}"
export NMT_CACHE_DIR="${NMT_CACHE_DIR:-/mnt/nmt/cache}"

# Between machines. Interfaces: `ip -br addr` names them; NCCL takes a prefix or ^not-these, gloo one exact name: workers
# take the interface of their node's own address, unless GLOO_SOCKET_IFNAME is set here
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-^lo,docker,veth}"
export NCCL_IB_DISABLE="${NCCL_IB_DISABLE:-1}" # 0 where there is InfiniBand or RoCE
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
# A collective that hangs: torch's watchdog ends the process after Ray Train's limit for one collective (1,800 s), and after this
# many seconds where the watchdog itself hangs; Ray Train then starts the workers again from the last checkpoint.
export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING:-3}"
export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="${TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC:-600}"

# The product's own Python; its folder is where `ray up` puts the source
NMT_HOME="${NMT_HOME:-$HOME/nmt}"
export NMT_HOME PATH="$NMT_HOME/.venv/bin:$PATH"
