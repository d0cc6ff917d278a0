.PHONY: check quick requirements

check:  ## everything that CI checks
	bash .ci/run

quick:  ## lint, types, rooms, the tests of what changed, the laws at few examples
	bash .ci/quick

COMPILE = uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-header --python-version 3.11

requirements:  ## pin the environments anew, with hashes and without any index address
	$(COMPILE) --group test --group peers pyproject.toml --output-file requirements/test.txt
	$(COMPILE) --group test --constraint requirements/oldest.in pyproject.toml --output-file requirements/oldest.txt
	$(COMPILE) --group lint --group test --group peers pyproject.toml --output-file requirements/lint.txt
	echo uv | $(COMPILE) - --output-file requirements/uv.txt
