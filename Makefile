# Holdfast: `make help` lists the verbs.

PYTHON ?= python3
URL ?=
PORT ?= 8080
CORPUS_DEFAULT := $(HOME)/.cache/holdfast/corpus
CORPUS ?= $(CORPUS_DEFAULT)
# An interpreter that has pywb; it does not go into the same environment, because it brings another 'brotli'.
PYWB_DEFAULT := .venv-pywb/bin/python
PYWB ?= $(PYWB_DEFAULT)

# Debian packages that the tests need: zstd reads blocks without Holdfast, as the documentation shows; nginx, openssl and
# Chromium are what is fetched from, and with; Firefox looks at replay as well; Spark runs on Java.
DEBIAN_TEST := chromium default-jre-headless firefox-esr logrotate nginx-light openssl wrk zstd
# For `python -m benchmarks`: what serves its site, crawlers to compare with, wrk as a client, and network file systems.
DEBIAN_BENCH := fuse3 libnfs13 nfs-ganesha nfs-ganesha-vfs nginx-light openssh-server rpcbind sshfs wget wget2 wrk

BIN := .venv/bin
# Tests wait for servers and browsers a quarter of their time, so there is one more worker than most machines have cores.
WORKERS ?= 3
# Where tests work: in memory, if there is room, since their syncs prove nothing about the disk.
SCRATCH := $(shell test "$$(df --output=avail -B1M /dev/shm 2>/dev/null | tail -n 1)" -ge 4096 2>/dev/null && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Some tests start a dozen processes. What fails beside others is run once more, alone, and named; it must pass then.
PYTEST = TMPDIR="$(SCRATCH)" HOLDFAST_PYWB="$(PYWB)" $(BIN)/pytest

ifeq ($(CI),true)
export NO_COLOR := 1
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test check docs bench bench-quick corpus soak clean
.DELETE_ON_ERROR:

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: .venv/.installed ## crawl a small site, or URL=, and open the archive at http://127.0.0.1:8080, or PORT=
	@$(BIN)/holdfast demo --port $(PORT) $(URL)

demo-cluster: .venv/.installed-cluster ## run three nodes of a cluster, with pages at http://127.0.0.1:8080, or PORT=, and the next tens
	@$(BIN)/python tools/demo-cluster --port $(PORT)

test: check $(filter $(PYWB_DEFAULT),$(PYWB)) ## check, then the whole test suite
	$(BIN)/python -m compileall -q src  # for the hundreds of processes that tests start, whatever the environment says
	$(PYTEST) -n $(WORKERS) --dist worksteal --ignore tests/project \
		|| { test $$? -eq 1 && $(PYTEST) -vv --last-failed --last-failed-no-failures none; }

check: .venv/.installed-test ## format, lint, types, and the rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest tests/project

docs: .venv/.installed-docs ## the documentation as a site with search, in build/docs; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

bench: .venv/.installed-bench $(if $(filter $(PYWB_DEFAULT),$(PYWB)),.venv-pywb/bin/uwsgi) $(if $(filter $(CORPUS_DEFAULT),$(CORPUS)),$(CORPUS_DEFAULT)/CORPUS.json) ## measure store, archive, crawler, replay, volume servers, organizations, index, streams and clusters beside their peers, on CORPUS=
	$(BIN)/python -m benchmarks store --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks archive --corpus "$(CORPUS)" $(if $(PYWB),--pywb "$(PYWB)")
	$(BIN)/python -m benchmarks crawl --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks replay --corpus "$(CORPUS)" $(if $(PYWB),--pywb "$(PYWB)")
	$(BIN)/python -m benchmarks webstore --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks webbase --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks query --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks stream --corpus "$(CORPUS)"
	$(BIN)/python -m benchmarks cluster

bench-quick: .venv/.installed-bench $(if $(filter $(PYWB_DEFAULT),$(PYWB)),.venv-pywb/bin/uwsgi) $(if $(filter $(CORPUS_DEFAULT),$(CORPUS)),$(CORPUS_DEFAULT)/CORPUS.json) ## measure one row of each kind, compared with the figures committed last; under 10 minutes
	$(BIN)/python -m benchmarks quick --corpus "$(CORPUS)" $(if $(PYWB),--pywb "$(PYWB)")

corpus: ## collect more than 20,000 real pages into CORPUS=
	$(PYTHON) benchmarks/harness/collect_corpus.py "$(CORPUS)"

$(CORPUS_DEFAULT)/CORPUS.json:
	$(PYTHON) benchmarks/harness/collect_corpus.py "$(CORPUS_DEFAULT)"

soak: .venv/.installed-test $(if $(filter $(CORPUS_DEFAULT),$(CORPUS)),$(CORPUS_DEFAULT)/CORPUS.json) ## the long tests; large catalogs, records and frontiers, and a long life of the server measured
	HOLDFAST_CORPUS="$(CORPUS)" $(BIN)/pytest -m soak
	$(BIN)/python -m benchmarks archive --scale 1000000 --scale 10000000 --large 1G
	$(BIN)/python -m benchmarks crawl --frontier 1000000
	$(BIN)/python -m benchmarks replay --corpus "$(CORPUS)" --requests 200000

clean: ## remove what make made in this directory
	rm -rf .venv .venv-pywb .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp per set of extras; a change of pyproject.toml installs again.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable '.[search]'
	@touch $@

.venv/.installed-cluster: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable '.[cluster,search]'
	@touch $@

.venv/.installed-docs: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable '.[docs]'
	@touch $@

.venv/.installed-test: pyproject.toml | .venv/bin/python
	tools/debian-packages $(DEBIAN_TEST)
	$(BIN)/pip install --quiet --editable '.[bench,test]'
	@touch $@

.venv/.installed-bench: pyproject.toml | .venv/bin/python
	tools/debian-packages $(DEBIAN_BENCH)
	$(BIN)/pip install --quiet --editable '.[bench]'
	@touch $@

$(PYWB_DEFAULT):
	$(PYTHON) -m venv .venv-pywb
	-.venv-pywb/bin/pip install --quiet 'pywb>=2.8,<3'  # without it, what is compared with it is left out

# It is compiled; without it, one form of pywb has no figure.
.venv-pywb/bin/uwsgi: | $(PYWB_DEFAULT)
	-.venv-pywb/bin/pip install --quiet 'uwsgi>=2.0.28,<3'
