# Every target makes its own .venv first; `make` alone lists the targets.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench crash broker docs manifests faults sbom

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(READY) ## a stream, a flow, no broker: see features being selected
	@$(VENV)/bin/sluiceway demo $(ARGS)

# three processes on two cores: half of the time tests wait for a broker
test: lint ## ruff, mypy, import-linter, then all tests
	$(PY) -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

lint: $(READY) ## ruff, mypy, import-linter
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

bench: $(READY) ## the benchmarks
	$(PY) -m benchmarks $(ARGS)

crash: $(READY) ## the whole crash series; `make test` runs its fast subset
	$(PY) -m pytest -m crash --crash-full --numprocesses 2 --dist load $(ARGS)

faults: $(READY) ## 200 seeded schedules of faults; `make test` plays ten of them
	$(PY) -m pytest tests/faults --schedules 200 --numprocesses 2 --dist load $(ARGS)

broker: $(READY) ## a Kafka broker in the foreground; prints its address
	@docker/broker/start $(ARGS)

docs: $(READY) ## what README.md and docs/ say of settings, operators and figures, made anew
	@$(PY) -m tests.docs $(ARGS)

manifests: $(READY) ## plain Kubernetes manifests in docker/manifests, from the chart
	@$(PY) -m tests.support.helm

sbom: $(READY) ## what is installed, as a CycloneDX bill of materials
	@$(PY) tools/sbom

$(READY): pyproject.toml constraints.txt
	@sh tools/make-venv $(VENV)
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
