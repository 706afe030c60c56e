# Two commands do everything: `make demo` and `make test`. PYTHON chooses the interpreter, TORCH the torch: the newest that the
# interpreter has, unless you say TORCH=torch==2.13.0. UNITY=ON builds in a third of the time an extension whose calls take a
# little longer.
PYTHON ?= python3
TORCH ?= torch>=2.11,<2.16
VENV ?= .venv
JOBS ?= 2
UNITY ?= OFF

# Where the environment sets it, each process that a test starts would compile all Python sources that it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.dynamo_lite
COMMA := ,
SOURCES := $(wildcard csrc/* csrc/*/*) CMakeLists.txt pyproject.toml

# The packages of groups in pyproject.toml: $(call packages,build test)
packages = $$($(BIN)/python distribution/requirements.py $(1))

.PHONY: demo test port test-fast test-sample test-fast-sample stress matrix wheels test-wheel fuzz cpython-tests suites soak asan faults tsan debug lint bench training docs clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Each process computes with one thread: with more, they would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist=worksteal --timeout=300

# Everything but long runs; what changes while you write code; samples of the long runs, which the commit draws.
SEED ?= $(shell git rev-parse HEAD)
test: $(STAMP)
	$(PYTEST) tests -m "not stress"

test-fast: $(STAMP)
	$(PYTEST) tests -m fast

stress: $(STAMP)
	$(PYTEST) tests/stress -rs --sample-seed=$(SEED)

# What depends on the interpreter, and a sample of the rest that the commit draws: make test-sample SAMPLE=0.3
SAMPLE ?= 0.05
test-sample: $(STAMP)
	@echo "the sample's seed: $(SEED)"
	$(PYTEST) tests -m "not stress or interpreter" --sample=$(SAMPLE) --sample-seed=$(SEED)

# The same of the quick tests alone, and of those that depend on the interpreter no more than a sample, too.
test-fast-sample: $(STAMP)
	@echo "the sample's seed: $(SEED)"
	$(PYTEST) tests -m fast --sample=$(SAMPLE) --sample-from-all --sample-seed=$(SEED)

# Everything for each pair: all tests, CPython's own and the figures of the hot path, from wheels. Prints the rows of the table
# in docs/install.md: make matrix PYTHONS="python3.11 python3.12" TORCHES="2.13 2.15"; all interpreters that are there by default.
# PART=0.05 runs a twentieth of the tests, and of CPython's own those that continuous integration runs.
PYTHONS ?= $(shell for minor in 11 12 13 14 15; do \
  python3.$$minor distribution/supported_python.py 2> /dev/null && echo python3.$$minor; done; true)
TORCHES ?= 2.11 2.12 2.13 2.14 2.15
PAIRS = --python $(PYTHONS) --torch $(TORCHES) $(if $(filter ON,$(UNITY)),--unity)
PART ?=
matrix:
	$(PYTHON) distribution/matrix.py $(PAIRS) $(if $(PART),--sample $(PART))

# What another CPython needs, without torch and without a build: make port PYTHON=python3.14
port:
	$(PYTHON) tests/support/port_kit.py

# Programs made by a grammar, from a random seed: make fuzz N=10000; all programs over classes that derive from builtin
# ones and over their neighbours, and all whose backward reads something.
N ?= 2000
fuzz: $(STAMP)
	$(BIN)/python tests/support/fuzz.py $(N)
	PYTHONPATH=tests $(BIN)/python tests/support/builtin_classes.py --all
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/backward_programs.py --all

# The source distribution in dist/, and a wheel for each interpreter and torch: make wheels PYTHONS=python3.12 TORCHES=2.15
wheels:
	$(PYTHON) distribution/wheels.py $(PAIRS)

# The tests, from a wheel that is installed in an environment of `make wheels`: nothing of this tree is imported but them.
# Quick runs: make test-wheel MARKS=fast; make test-wheel PART=0.05, which the commit draws.
MARKS ?= not stress
WHEEL_ENVIRONMENT ?= $(firstword $(wildcard build/wheels/cp*))
test-wheel: BIN = $(WHEEL_ENVIRONMENT)/bin
test-wheel:
	$(PIP) install -q $$($(BIN)/python distribution/torch_requirement.py) $(call packages,test)
	rm -rf $(WHEEL_ENVIRONMENT)/tree && mkdir $(WHEEL_ENVIRONMENT)/tree
	cp -r $(filter-out dynamo_lite pytest_dynamo_lite build dist,$(wildcard *)) $(WHEEL_ENVIRONMENT)/tree
	cd $(WHEEL_ENVIRONMENT)/tree && OMP_NUM_THREADS=1 ../bin/python -P -m pytest -q -n $(JOBS) --dist=worksteal \
	  --timeout=300 tests -m "$(MARKS)" \
	  $(if $(PART),--sample=$(PART) --sample-from-all --sample-seed=$(SEED))

# CPython's own tests, with the hook on and every frame offered to the translator.
cpython-tests: $(STAMP)
	$(BIN)/python tests/support/cpython_tests.py

# The test suites of libraries built on torch, plainly and under the hook: make suites SUITES="einops zuko"
SUITES ?=
suites: $(STAMP)
	$(BIN)/python tests/support/suites.py $(SUITES)

# 200 models one after the other, then threads, greenlets, forked workers and a pool of processes, each for a minute: memory
# stays flat, answers right.
soak: $(STAMP)
	$(BIN)/python tests/support/soak.py

bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/capture.py
	$(BIN)/python benchmarks/launch.py

# 50 steps of three models, eagerly and compiled, beside each other.
training: $(STAMP)
	$(BIN)/python benchmarks/training.py

# Python compiles what is imported when it is: not all of thousands of files now.
$(VENV)/.packages: pyproject.toml
	$(PYTHON) distribution/supported_python.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q --no-compile "$(TORCH)"
	$(PIP) install -q --no-compile $$($(BIN)/python distribution/torch_requirement.py) $(call packages,build test lint)
	touch $@

# The extension is built beside the sources against the torch it will run with; the tree itself is what is imported.
$(STAMP): $(VENV)/.packages $(SOURCES)
	$(BIN)/cmake -S . -B $(VENV)/build -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DDL_IN_TREE=ON -DCMAKE_UNITY_BUILD=$(UNITY)
	$(BIN)/cmake --build $(VENV)/build -j $(JOBS)
	$(BIN)/python distribution/link_tree.py > /dev/null
	touch $@

# Builds with sanitizers, $(1), in a folder of the target's name; $(2): more options of CMake's.
define sanitized
	$(BIN)/cmake -S . -B $(VENV)/$@ -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DDL_SANITIZE=$(1) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_UNITY_BUILD=ON $(2)
	$(BIN)/cmake --build $(VENV)/$@ -j $(JOBS)
	rm -rf $(VENV)/$@/tree && mkdir -p $(VENV)/$@/tree && cp -r dynamo_lite $(VENV)/$@/tree/
	rm -f $(VENV)/$@/tree/dynamo_lite/_C*.so && cp $(VENV)/$@/_C*.so $(VENV)/$@/tree/dynamo_lite/
endef

# The hook's and the guards' tests under AddressSanitizer and UndefinedBehaviorSanitizer, with a sample of calls that fail;
# `make faults`: each allocation and each call of CPython's that can fail fails, one after the other.
asan: $(STAMP)
	mkdir -p $(VENV)/asan/faults
	$(BIN)/python tests/support/faulty_calls.py "$$(ls dynamo_lite/_C*.so | head -1)" $(VENV)/asan/faults
	$(call sanitized,address$(COMMA)undefined,-DDL_FAULTS=$(abspath $(VENV)/asan/faults))
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1 PYTHONPATH=$(VENV)/asan/tree \
	  $(BIN)/python -P -m pytest $(ASAN_TESTS) -q -p no:xdist

ASAN_TESTS := tests/csrc
faults: ASAN_TESTS := tests/csrc/test_faults.py
faults: export DL_FAULTS := every
faults: asan

# What uses threads, under ThreadSanitizer. Forks aside, which it doesn't support beside threads. Addresses are not drawn,
# for it wants some of its own; its reports go to files, for pytest keeps what a test writes.
tsan: $(STAMP)
	$(call sanitized,thread)
	rm -f $(VENV)/tsan/report.*
	LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" OMP_NUM_THREADS=1 PYTHONPATH=$(VENV)/tsan/tree \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/support/tsan.txt log_path=$(abspath $(VENV)/tsan/report)" \
	  setarch -R $(BIN)/python -P -m pytest $(TSAN_TESTS) -q -p no:xdist || { cat $(VENV)/tsan/report.*; exit 1; }

TSAN_TESTS := tests/csrc tests/guards tests/process tests/python/stdlib/test_warning_filters.py tests/stress/test_soak.py \
  -k "thread and not fork and not greenlet"

# Tests under a CPython of the same version that was built for debugging: it asserts what frames and references are to be.
DEBUG_PYTHON ?= python3.11-dbg
DEBUG_TESTS ?= $(addprefix tests/,arguments breaks csrc guards lifetimes process python torch/test_torch_state.py)
debug: export PYTHONPATH = $(CURDIR):$(shell $(BIN)/python -c "import site; print(site.getsitepackages()[0])" 2>/dev/null)
debug: $(STAMP)
	$(BIN)/cmake -S . -B $(VENV)/debug -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DPython_EXECUTABLE=$$(command -v $(DEBUG_PYTHON)) -DDL_IN_TREE=ON
	$(BIN)/cmake --build $(VENV)/debug -j $(JOBS)
	$(DEBUG_PYTHON) -m pytest $(DEBUG_TESTS) -q -n $(JOBS) --timeout=300 -p no:cacheprovider

lint: $(STAMP)
	$(BIN)/ruff check dynamo_lite pytest_dynamo_lite distribution tests benchmarks examples docs
	$(BIN)/ruff format --check dynamo_lite pytest_dynamo_lite distribution tests benchmarks examples docs
	$(BIN)/clang-format --dry-run -Werror $(wildcard csrc/*.cpp csrc/*.h csrc/*/*.cpp csrc/*/*.h)
	$(BIN)/mypy

# The site in build/site. It needs neither torch nor the extension.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.docs: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q $(call packages,docs)
	touch $@

clean:
	rm -rf build $(VENV)/build $(VENV)/asan $(VENV)/tsan $(VENV)/debug dynamo_lite/_C*.so $(STAMP)
