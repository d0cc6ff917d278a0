"""The live cascade as a service: `emsco serve`."""

from importlib.util import find_spec

from emsco.exceptions import require

# Fail early with a hint on what to install; the modules themselves are imported later.
for _module in ("fastapi", "uvicorn", "prometheus_client"):
    if find_spec(_module) is None:
        require(_module, "serve")
