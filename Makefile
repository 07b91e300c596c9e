# Each target is one line a person can read. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# Tests start thousands of processes: without byte code on disk each of them would compile the library anew.
unexport PYTHONDONTWRITEBYTECODE
# Node.js comes from the machine or, where it has none or an old one, from .venv; CDK's Python half looks for it on the PATH.
export PATH := $(CURDIR)/.venv/node:$(PATH):$(CURDIR)/.venv/bin

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: .venv/ready  ## install everything into .venv (the other targets do this by themselves)

.venv/ready: pyproject.toml training_lib/compat/pyproject.toml training_lib/localaccount/pyproject.toml training_lib/native/pyproject.toml $(wildcard training_lib/native/trackside_native/*.c) training_lib/trackside.pth stacks/lambda_packages.py .ci/set_up
	@.ci/set_up $(PYTHON)

demo: setup  ## the whole story on the local account: fault -> finding -> event -> stop, and the healthy twin
	@$(BIN)/python examples/demo/demo.py

# Types take one core for two minutes: neither the other checks nor the tests wait for them. What mypy has to say comes last.
TYPES = types=$$(mktemp); $(BIN)/mypy >"$$types" 2>&1 & pid=$$!
CHECKS = $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/python docs/generate.py --check && $(BIN)/python .ci/check_style.py && $(BIN)/python .ci/changelog.py --check && $(BIN)/python .ci/lint_deployment.py
ENDED = others=$$?; wait $$pid; typed=$$?; cat "$$types"; rm -f "$$types"; [ $$typed = 0 ] && [ $$others = 0 ]

test: setup  ## all checks, and the tests of everything in its parts
	@$(TYPES); $(CHECKS) && $(BIN)/pytest -n auto --dist loadgroup --max-worker-restart 0 --part usual; $(ENDED)

thorough: setup  ## the tests that `make test` leaves out: whole stories, corpus, launchers, notebooks, random inputs, local account
	@$(BIN)/pytest -n auto --dist loadgroup --max-worker-restart 0 --part thorough

test-all: test thorough  ## all checks and all tests

quick: setup  ## at each change: format, lint, types, imports, and the tests that are fast and central
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy && $(BIN)/lint-imports >/dev/null && $(BIN)/pytest -n auto --dist loadgroup --max-worker-restart 0 --part quick

check: setup  ## format, lint, types, import contracts, docs current, style, change notes, templates, Dockerfiles
	@$(TYPES); $(CHECKS); $(ENDED)

extras: setup  ## install the wheel with each combination of extras, and run every command (needs the network)
	@$(BIN)/python .ci/check_extras.py

pythons:  ## the tests that need no framework, under every other Python that this machine has or uv brings
	@.ci/other_pythons

newest:  ## the tests of each framework with the newest releases (6 GB, built once; needs the network)
	@python3 .ci/releases.py newest

oldest:  ## the same with the oldest releases that are promised; needs Python 3.10
	@python3 .ci/releases.py oldest

keras: setup  ## the tests of Keras's adapter on TensorFlow and JAX (1.9 GB, built once; needs the network)
	@.ci/keras_backends

frameworks: setup  ## the tests of CatBoost and JAX (1.4 GB, built once; needs the network)
	@.ci/more_frameworks

mxnet:  ## the tests of MXNet 1.9.1 (0.3 GB, built once; needs Python 3.11 and the network)
	@.ci/mxnet

conformance: setup  ## the original smdebug's own tests, of your copy, under it and the drop-in: make conformance SUITE=path
	@$(BIN)/python -m tests.smdebug.conformance "$(SUITE)"

synth: setup  ## synthesize the stacks into cdk.out (no credentials, no network)
	@.ci/cdk synth --quiet

template: setup  ## one plain CloudFormation template, with its assets in a bucket: make template BUCKET=name
	@$(BIN)/python -m stacks.plain_template "$(BUCKET)"

drill: setup  ## bootstrap, deploy twice, `trackside drill`, destroy: the real CDK command line, the local account
	@$(BIN)/python examples/demo/drill.py

sdk: setup  ## a notebook of the real SageMaker SDK (versions 2 and 3: 1.2 GB, built once) against the local account
	@$(BIN)/python examples/sagemaker/play.py

image: setup  ## build the evaluator's image and push it to the deployment's repository (Docker, podman or buildah)
	@$(BIN)/python -m stacks.push_image

audit: setup  ## ask PyPI about known vulnerabilities of what is installed (needs the network)
	@.ci/audit

findings:  ## run each finding about other libraries again, in environments of their own (needs the network)
	@for each in findings/*.sh; do echo "$$each" && bash "$$each" || exit 1; done

wheels:  ## build the five wheels into dist
	@rm -rf dist && $(PYTHON) -m venv build/wheels && build/wheels/bin/pip install -q build && build/wheels/bin/python -m stacks.lambda_packages && for each in . training_lib/compat training_lib/localaccount training_lib/native stacks; do build/wheels/bin/python -m build --wheel --outdir dist $$each || exit 1; done

bench: setup  ## capture, reading and starts in their short form; benchmarks/README.md has all
	@$(BIN)/python -m benchmarks.turns mlp --rounds 3 && $(BIN)/python -m benchmarks.reading --rounds 1 --quick && $(BIN)/python -m benchmarks.startup_cost --pairs 5 client evaluator capture

pictures: setup  ## draw the pictures of the README again, from real output
	@$(BIN)/python -m docs.pictures

changelog: setup  ## assemble CHANGELOG.md from changes/
	@$(BIN)/python .ci/changelog.py

docs: setup  ## write the generated pages again, and build the site into build/site
	@$(BIN)/python docs/generate.py && $(BIN)/python -m docs.permissions && $(BIN)/zensical build --strict --clean

.PHONY: help setup demo test thorough test-all quick check extras pythons newest oldest keras frameworks mxnet conformance synth template drill sdk image audit findings wheels bench pictures changelog docs
