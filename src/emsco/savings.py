"""What cheaper stages before an existing model would have saved."""

from emsco.certify.savings import Saving, Savings, savings

__all__ = ["Saving", "Savings", "savings"]
