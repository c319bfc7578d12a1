# Every target works on a fresh clone with only Python 3.11+ and make: the environment is made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-gpu lint docs audit clean

demo: $(READY)
	$(BIN)/mgpp demo

test: lint docs
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Into build/site. Strict: a dead link, a page that no menu shows or a name that does not exist is an error. Not --quiet,
# which silences warnings before they are counted.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Known vulnerabilities of the pinned versions; says so and goes on where the index cannot be asked.
audit: $(READY)
	$(BIN)/python .ci/audit.py

# On a machine with its own CUDA build of torch: uses that Python as it is (it needs pytest and hypothesis), installs
# nothing, and runs all that a device can change.
test-gpu:
	PYTHONPATH=src:. OMP_NUM_THREADS=1 $(PYTHON) -m pytest -p no:cacheprovider --device cuda \
		tests/test_gpu.py tests/test_adamw.py tests/test_faster.py tests/kernels tests/functional tests/methods tests/runtime tests/scale/test_gpu.py

# torch first and alone: its pinned build must be in place before another package's looser range is read. DeepSpeed by
# itself in a folder, from which only its own tests import it: wherever it is found, accelerate imports it too.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps \
		--target $(VENV)/deepspeed deepspeed einops hjson msgpack ninja py-cpuinfo
	touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
