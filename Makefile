# Two commands do everything on a machine with git, make and Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=  # tests start many processes, and each would compile every module that it imports
MAKEFLAGS += --jobs=2  # `lint` computes while `wheel` waits for the network

.PHONY: demo check test lint wheel study corpus campaign signals resources bench bench-gpu docs dist clean
.DELETE_ON_ERROR:

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --no-compile --editable '.[dev]'
	touch $@

demo: .venv/ready  ## the paper's pendulum with every method
	$(BIN)/holonax demo --full

FAST := tests/test_architecture.py tests/methods/test_tableau.py tests/methods/test_parse.py tests/inputs/test_campaign.py \
	tests/mechanics/test_start.py tests/numerics/test_elementary.py tests/numerics/test_whole.py tests/compiler/test_lanes.py

check: .venv/ready lint  ## a minute: layers, types, words, translation; before every commit
	$(BIN)/python -m pytest $(FAST)

test: .venv/ready lint wheel  ## everything that must hold
	$(BIN)/python -m pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: .venv/ready  ## build a wheel, install it in an empty environment, run the README's example there
	rm -rf dist .wheel-env
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv --without-pip .wheel-env
	$(BIN)/pip --python .wheel-env install --quiet --no-compile dist/*.whl
	$(BIN)/python tests/readme.py > .wheel-env/example.py
	cd .wheel-env && bin/python -I example.py

dist: .venv/ready  ## the wheel and the source distribution, checked as the package index would
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*

.venv/docs: .venv/ready
	$(BIN)/pip install --quiet --no-compile --editable '.[docs]'
	touch $@

docs: .venv/docs  ## the site in out/site: every page run, warnings are errors, no dead links (minutes)
	rm -rf out/site out/jupyter_execute docs/api
	$(BIN)/sphinx-build -q -W --keep-going -j 2 -d out/doctrees -E docs out/site
	$(BIN)/python docs/tools/links.py out/site

study: .venv/ready  ## the heavy statistics that `make test` leaves out (long)
	$(BIN)/python -m pytest -m study tests

corpus: .venv/ready  ## every method on every system that users bring, on every engine (long)
	$(BIN)/python -m pytest -m 'corpus or not corpus' tests/systems/test_corpus.py tests/systems/test_corpus_statistics.py

campaign: .venv/ready  ## bad input of every kind, and what came of it, counted (a minute)
	$(BIN)/python tests/campaign.py

signals: .venv/ready  ## Ctrl-C and SIGTERM at random moments, and how soon they are answered (minutes)
	$(BIN)/python tests/signals.py

resources: .venv/ready  ## memory over hundreds of systems and thousands of calls (minutes)
	$(BIN)/python tests/resources.py

.venv/bench: .venv/ready
	$(BIN)/pip install --quiet --editable '.[dev,bench]'
	touch $@

bench: .venv/bench  ## speed beside hand-written C and other libraries (about 8 minutes; writes benchmarks/results/)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.sampling

bench-gpu: .venv/ready  ## the same on an NVIDIA GPU (needs the extra [cuda])
	$(BIN)/python -m benchmarks.gpu_main
	$(BIN)/python -m benchmarks.gpu_short

clean:
	rm -rf .venv .wheel-env dist out
