"""X as named columns, read once; encodings; the guard; which rows are known."""
