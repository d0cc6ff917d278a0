"""Small helpers for all packages: frozen mappings, text tables, files written whole."""
