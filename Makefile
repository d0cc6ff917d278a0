.PHONY: check nightly quick docs figures release-check requirements

PYTHON ?= .venv/bin/python

check:  ## what must hold before a change lands
	bash .ci/run

nightly:  ## everything else, at its small size
	bash .ci/nightly

BIN = $(dir $(PYTHON))

quick:  ## lint, types, rooms, and the laws at few examples
	$(BIN)ruff check . && $(BIN)ruff format --check . && $(BIN)mypy && $(BIN)lint-imports --no-logo | tail -n 3
	SCIPY_ARRAY_API=1 $(PYTHON) -m pytest -q -n 2 --hypothesis-profile=few -m "not nightly and not alone and not data" \
		tests/core tests/cascade tests/test_rooms.py tests/test_import.py

docs:  ## the site, in docs/_build/html; warnings are errors
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html

figures:  ## compare the figures of the documentation with stored results
	$(PYTHON) docs/figures.py
	$(PYTHON) -m pytest -q tests/test_experiments.py tests/test_peers.py tests/test_text_experiment.py \
		-k "documentation_holds or documentation_tells or readme_holds"

# The time of the commit, so that the same commit gives the same bytes, whenever and wherever it is built.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

# The wheel is built from the sdist, so what a compiler or a user of the checkout left behind is in neither.
BUILD = PATH="$(abspath $(BIN)):$$PATH" $(PYTHON) -m build --no-isolation --outdir

release-check:  ## build sdist and wheel twice, and compare the bytes
	rm -rf dist/check && mkdir -p dist/check
	$(BUILD) "$(CURDIR)/dist/check/once"
	$(BUILD) "$(CURDIR)/dist/check/again"
	diff -r dist/check/once dist/check/again && ls -l dist/check/once

COMPILE = uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-header --python-version 3.11

requirements:  ## pin the environments anew, with hashes and without any index address
	$(COMPILE) --group test --group peers --group engines pyproject.toml --output-file requirements/test.txt
	$(COMPILE) --group test --constraint requirements/oldest.in pyproject.toml --output-file requirements/oldest.txt
	$(COMPILE) --group lint --group test --group peers pyproject.toml --output-file requirements/lint.txt
	$(COMPILE) --group docs pyproject.toml --output-file requirements/docs.txt
	# The build of torch for CPUs is not on PyPI: UV_FIND_LINKS says where it is.
	$(COMPILE) --constraint requirements/test.txt pyproject.toml requirements/text.in --output-file requirements/text.txt
	echo 'moto[server]' | $(COMPILE) - --output-file requirements/s3.txt
	# A gateway between chat models and the server of their tests; its libraries do not go with ours.
	echo 'litellm[proxy]' | $(COMPILE) - --output-file requirements/litellm.txt
	echo uv | $(COMPILE) - --output-file requirements/uv.txt
	echo cyclonedx-bom | $(COMPILE) - --output-file requirements/sbom.txt
	echo cibuildwheel | $(COMPILE) - --output-file requirements/cibuildwheel.txt
