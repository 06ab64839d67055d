# `make` lists the targets. The first use of any of them makes .venv and installs everything into it.

PYTHON ?= python3
VENV ?= .venv
CORPORA ?=
PEERS ?=
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# One process per core, each with one thread: two threads per process would fight for the cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile $(if $(CORPORA),--corpora=$(CORPORA))

help:
	@echo "make demo       the whole path on a small built-in corpus: prepare, train, translate, evaluate, draw (5 minutes)"
	@echo "make test       lint, types and the fast tests (CORPORA=DIR adds those on real corpora, chromium those of pages)"
	@echo "make test-slow  the tests that take minutes: kills at random moments, long runs"
	@echo "make bench      speed of training on Multi30k, CORPORA=DIR, beside other toolkits, PEERS=DIR (under 15 minutes)"
	@echo "make check      lint and types only"
	@echo "make format     put the code into the house's form"
	@echo "make docs       write the generated pages of docs/ anew"
	@echo "make clean      remove the demo and caches (prepared/ and runs/ of your own stay)"

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/python -m data.grammar --output demo
	$(BIN)/python preprocess.py --config demo.yaml
	$(BIN)/python train.py --config demo.yaml
	$(BIN)/python translate.py --model runs/demo --input demo/test.en --output demo/translated.de --reference demo/test.de
	$(BIN)/python -m transformer attention --model runs/demo --output runs/demo/attention.png --sentence "$$(head -n 1 demo/test.en)"
	$(BIN)/python evaluate.py --model runs/demo --examples 8
	$(BIN)/python -m transformer report runs/demo

test: check
	$(PYTEST)

test-slow: $(INSTALLED)
	$(PYTEST) -m slow

# PEERS: what benchmarks/install_peers.sh has made; without it ours and a plain PyTorch loop.
bench: $(INSTALLED)
	@test -n "$(CORPORA)" || { echo "make bench needs CORPORA=DIR, where DIR/multi30k holds train.en.gz …" >&2; exit 2; }
	$(BIN)/python benchmarks/training.py --data $(CORPORA)/multi30k \
		$(foreach name,fairseq hugging_face eole joeynmt,$(if $(wildcard $(PEERS)/$(name)/bin/python),--venv $(name)=$(PEERS)/$(name)))

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

docs: $(INSTALLED)
	$(BIN)/python -m transformer.config_reference

clean:
	rm -rf demo prepared/demo runs/demo .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help demo test test-slow bench check format docs clean
