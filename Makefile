# make setup | quickstart | test | test-slow | test-gpu | check | format | docs | lock | clean
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch==2.13.0
PIP_TOOLS := pip-tools==7.6.2
UV := uv==0.13.9
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
# uv installs the lock in a fraction of pip's time. It does not read pip's settings: they are handed on.
setting = $${PIP_$(1):-$$($(BIN)/python -m pip config get global.$(2) 2>/dev/null || true)}
UV_INSTALL = UV_DEFAULT_INDEX="$(call setting,INDEX_URL,index-url)" UV_EXTRA_INDEX_URL="$(call setting,EXTRA_INDEX_URL,extra-index-url)" \
  UV_FIND_LINKS="$(call setting,FIND_LINKS,find-links)" SSL_CERT_FILE="$(call setting,CERT,cert)" \
  $(BIN)/uv pip install --quiet --python $(BIN)/python --index-strategy unsafe-best-match --require-hashes -r requirements.lock
FAST := not ray and not slow and not browser and not chaos and not gpu
SLOW := (ray or slow or browser or chaos) and not gpu
# One thread a process: bits are promised at equal thread counts, and two pytest workers share the cores. Compiled modules are kept, for
# hundreds of tests start the command anew.
TEST_ENV := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
JOBS ?= 2
# Ray's tests wait for a good part of their time.
SLOW_JOBS ?= 3

# torch's libraries of a processor with AVX-512 are tested as on one with AVX2 too, any other's as with the least that its kind has.
AVX512 := $(shell grep -qm1 -w avx512bw /proc/cpuinfo 2>/dev/null && echo yes)
FEWER_ATEN := $(if $(AVX512),avx2,default)
FEWER_ONEDNN := $(if $(AVX512),AVX2,SSE41)
# The C of decoding likewise, where it is compiled for x86-64.
FEWER_ISA := $(if $(filter x86_64,$(shell uname -m)),$(if $(AVX512),x86-64-v3,x86-64),native)
FEWER := ATEN_CPU_CAPABILITY=$(FEWER_ATEN) ONEDNN_MAX_CPU_ISA=$(FEWER_ONEDNN) NMT_ISA=$(FEWER_ISA)
ARITHMETIC := tests/unit/models/test_native.py tests/unit/models/test_inference.py \
  tests/unit/models/test_definitions.py tests/unit/decoding \
  tests/unit/training/test_updates.py tests/unit/training/test_train.py::test_learns_and_repeats_bit_for_bit

.PHONY: help setup quickstart about-quickstart test test-slow test-gpu check format docs lock peers clean chromium iproute2 aarch64 mlflow-server

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

setup: $(STAMP)  ## create .venv from the lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] < (3, 13); sys.exit(0 if ok else "error: Python 3.11 or 3.12 is needed, this is %d.%d; try: make setup PYTHON=python3.12" % sys.version_info[:2])'
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing $(TORCH)"
	@$(PIP) '$(TORCH)'
	@echo "installing requirements.lock"
	@{ $(PIP) '$(UV)' && $(UV_INSTALL); } 2>/dev/null || $(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(STAMP)

quickstart: about-quickstart setup  ## four variants x three seeds on the built-in corpus
	$(BIN)/nmt-ablate sweep search_spaces/quickstart.yaml

about-quickstart:
	@test -f $(STAMP) || echo "1. installs what requirements.lock names into $(VENV): some minutes, once"
	@echo "2. generates a corpus and trains four variants with three seeds each through Ray: some minutes on 2 cores"
	@echo "3. prints the table, and three commands to look further. Ctrl-C stops it; the same command goes on where it stopped."

test: setup  ## the fast suite, and its arithmetic once more as on a processor of fewer instructions
	$(TEST_ENV) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "$(FAST)"
	@echo "arithmetic, with $(FEWER)"
	$(TEST_ENV) $(FEWER) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "$(FAST)" $(ARITHMETIC)

test-slow: setup chromium iproute2 aarch64 mlflow-server  ## ray, slow, browser and chaos tests, file by file, the longest files first
	@$(TEST_ENV) $(BIN)/python -m pytest -q -n $(SLOW_JOBS) --dist loadfile --no-loadscope-reorder -m "$(SLOW)" --timeout 600 \
	  || { rc=$$?; [ $$rc -eq 5 ] && echo "no slow test is selected" || exit $$rc; }

test-gpu: setup  ## what needs a CUDA device
	$(BIN)/python -m pytest -q -m gpu --timeout 600

chromium:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium for the browser tests"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 \
	    || echo "chromium could not be installed: the browser tests will be skipped"; \
	fi

iproute2:
	@if ! command -v ip >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing iproute2 for the tests with several machines"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2; } >/dev/null 2>&1 \
	    || echo "iproute2 could not be installed: the tests with several machines will be skipped"; \
	fi

aarch64:
	@if ! command -v qemu-aarch64 >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing a compiler for aarch64 and qemu for the tests of decoding's C"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user; } \
	    >/dev/null 2>&1 || echo "they could not be installed: these tests will be skipped"; \
	fi

SERVER_LOCK := cluster/mlflow/requirements.lock

# of PostgreSQL the programs alone: no database of the system is made or started
mlflow-server: setup .mlflow-server/.installed  ## PostgreSQL and what MLflow needs for it, for the tests of the shared server
	@if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing postgresql for the tests of the shared MLflow server"; \
	  mkdir -p /etc/postgresql-common/createcluster.d; \
	  echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/nmt.conf; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1 \
	    || echo "postgresql could not be installed: these tests will be skipped"; \
	fi

.mlflow-server/.installed: $(SERVER_LOCK) | setup
	@rm -rf .mlflow-server
	@$(PIP) --no-deps --require-hashes --target .mlflow-server -r $(SERVER_LOCK)
	@touch $@

check: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## ruff, repairing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# rows of 36 layers are those of modern/first
SHALLOWER := modern/depth/plain6,plain18,dlcl6,dlcl18,transparent6,transparent18,msc6,msc18
TABLES := dou2018/table1 mlrf2018/table2 hao2019/table1 hao2019/table2 hao2019/fig5 shen2018/table1 shen2018/table2 wei2020/table2 wei2020/table3 modern/first $(SHALLOWER)
DEPTH := modern/first/plain6,plain36,dlcl36,transparent36,msc36,dwa36,x0,x0-36,value-residual,value36,hyper36,mhc36,attnres36 $(SHALLOWER)

ENDED := dou2018/table1/row1,row1-continued,row5 modern/first/plain6,x0 shen2018/table2/row1/de-en,row3/de-en

docs: setup  ## docs/commands.md from --help, docs/spec.md from the schema, docs/results/README.md from the ledger
	$(BIN)/python -m typer orchestrator.cli.main utils docs --name nmt-ablate --title Commands --output docs/commands.md
	$(BIN)/python docs/spec_page.py > docs/spec.md
	$(BIN)/nmt-ablate report $(TABLES) --profile mini-short --second-corpus tatoeba-de-en --second-corpus tatoeba-en-de --results docs/results/ledger --markdown --text docs/results/text.md --to docs/results/README.md
	$(BIN)/nmt-ablate report $(ENDED) --ladder mini-64,mini --results docs/results/ledger --markdown --text docs/results/text-sizes.md --to docs/results/sizes.md
	$(BIN)/nmt-ablate report $(ENDED) --profile mini --results docs/results/ledger --markdown --to docs/results/mini.md
	$(BIN)/nmt-ablate report modern/family/plain,value-residual,satformer,depth-values,moda,fractions,lime,merged,siamese,plain-post,delta-attnres,moda-post,attnres,mhar --profile mini-64-alpha --results docs/results/ledger --markdown --to docs/results/tuned-family.md
	to=$$(mktemp -d) && $(BIN)/nmt-ablate analyse $(DEPTH) --kind depth --profile mini-short --results docs/results/ledger --no-tracking --out $$to && cp $$to/depth.svg docs/results/

peers: setup  ## other toolkits, each in .peers/NAME, for benchmarks --peers
	$(BIN)/python benchmarks/peers/environments.py

COMPILE := pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: setup  ## requirements.in -> requirements.lock, and the MLflow server's
	$(PIP) '$(PIP_TOOLS)'
	$(BIN)/$(COMPILE) -o requirements.lock requirements.in
	sed -i '/^#/d;/^$$/d' requirements.lock
	$(BIN)/$(COMPILE) -c requirements.lock -o $(SERVER_LOCK) cluster/mlflow/requirements.in
	sed -i '/^#/d;/^$$/d' $(SERVER_LOCK)
	@# what the product's lock has stays there
	awk 'NR == FNR { if (/^[a-z0-9]/) { split($$1, a, "=="); known[a[1]] }; next } /^[a-z0-9]/ { split($$1, a, "=="); keep = !(a[1] in known) } keep' \
	  requirements.lock $(SERVER_LOCK) > $(SERVER_LOCK).new && mv $(SERVER_LOCK).new $(SERVER_LOCK)
	! grep -qE '^torch==|://|^-' requirements.lock

clean:  ## caches; not .venv, not results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find models orchestrator tests cluster benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
